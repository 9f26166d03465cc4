//! The one way into each RPC of operators: its message is handed out with the caller that may
//! send it, and signed with that caller's name where it changes something.

use std::sync::Arc;

use tonic::{Request, Status};

use super::{super::admission::Guard, OperatorHandler};
use crate::{
    access::Method,
    proto::{
        CheckPolicyRequest, ClearHoldRequest, ClearOverrideRequest, DeleteCandidateRequest,
        DeletePolicyRequest, GetCandidateRequest, GetDependencyRequest, GetPolicyRequest,
        ListAuditRequest, ListCandidatesRequest, ListDependenciesRequest, ListEventsRequest,
        ListPoliciesRequest, ListReplicasRequest, PromoteCandidateRequest, PutCandidateRequest,
        PutPolicyRequest, ResetDependencyRequest, SetOverrideRequest, WatchDependenciesRequest,
        WatchEventsRequest,
    },
};

/// A message of one RPC.
pub trait Entered {
    const METHOD: Method;

    /// The namespace that it is about; empty where it names none, or the default.
    fn namespace(&self) -> &str;

    /// Whom it names as the one who acts, where it acts.
    fn owner(&mut self) -> Option<&mut String>;
}

impl<S> OperatorHandler<S> {
    /// The message, and who may send it.
    ///
    /// # Errors
    /// Nobody may who sent this; or the namespace or owner make no sense.
    pub(super) fn enter<M: Entered>(&self, request: Request<M>) -> Result<(M, Guard<'_>), Status> {
        let guard = Guard::of(&self.access, request.extensions())?;
        let mut message = request.into_inner();
        guard.admit(M::METHOD, message.namespace())?;
        if let Some(owner) = message.owner() {
            *owner = guard.signature(owner)?;
        }
        Ok((message, guard))
    }

    /// The same, and the coordinator for a change that is carried through.
    pub(super) fn enter_change<M: Entered>(
        &self,
        request: Request<M>,
    ) -> Result<(M, Arc<crate::coordinator::Coordinator<S>>), Status> {
        let (message, _) = self.enter(request)?;
        Ok((message, Arc::clone(&self.coordinator)))
    }
}

macro_rules! entered {
    ($($message:ident $method:ident $($namespace:ident)? / $($owner:ident)?;)+) => {
        $(impl Entered for $message {
            const METHOD: Method = Method::$method;

            fn namespace(&self) -> &str {
                entered!(@namespace self $($namespace)?)
            }

            fn owner(&mut self) -> Option<&mut String> {
                entered!(@owner self $($owner)?)
            }
        })+
    };
    (@namespace $self:ident $namespace:ident) => { &$self.$namespace };
    (@namespace $self:ident) => { "" };
    (@owner $self:ident $owner:ident) => { Some(&mut $self.$owner) };
    (@owner $self:ident) => { None };
}

entered! {
    ListDependenciesRequest     ListDependencies    namespace /;
    GetDependencyRequest        GetDependency       namespace /;
    WatchDependenciesRequest    WatchDependencies   namespace /;
    WatchEventsRequest          WatchEvents         namespace /;
    ListEventsRequest           ListEvents          namespace /;
    ListAuditRequest            ListAudit           namespace /;
    ListPoliciesRequest         ListPolicies        namespace /;
    GetPolicyRequest            GetPolicy           namespace /;
    CheckPolicyRequest          CheckPolicy         /;
    ListCandidatesRequest       ListCandidates      namespace /;
    GetCandidateRequest         GetCandidate        namespace /;
    ListReplicasRequest         ListReplicas        namespace /;
    SetOverrideRequest          SetOverride         namespace / owner;
    ClearOverrideRequest        ClearOverride       namespace / owner;
    ResetDependencyRequest      ResetDependency     namespace / owner;
    ClearHoldRequest            ClearHold           namespace / owner;
    PutPolicyRequest            PutPolicy           namespace / owner;
    DeletePolicyRequest         DeletePolicy        namespace / owner;
    PutCandidateRequest         PutCandidate        namespace / owner;
    PromoteCandidateRequest     PromoteCandidate    namespace / owner;
    DeleteCandidateRequest      DeleteCandidate     namespace / owner;
}
