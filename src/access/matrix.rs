//! The one table of every RPC on the gRPC port and the role that it needs. What is not in it is
//! answered by nobody, once there are access settings. A test compares it with the descriptors of
//! all that is served, and the book's table is made from it.

use std::fmt;

use super::Role;

/// What must be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Anybody may, without a credential.
    Nothing,
    /// Any role in any namespace.
    AnyRole,
    /// This role in the namespace that the request names.
    Role(Role),
    /// This role in some namespace: the request names none, and what it gets is nobody's.
    Somewhere(Role),
    /// This role in all namespaces: what it gets is everybody's.
    Everywhere(Role),
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::AnyRole => f.write_str("any role"),
            Self::Role(role) => write!(f, "the role {role} in its namespace"),
            Self::Somewhere(role) => write!(f, "the role {role} in some namespace"),
            Self::Everywhere(role) => write!(f, "the role {role} in all namespaces (\"*\")"),
        }
    }
}

macro_rules! rpcs {
    ($($method:ident $path:literal $needs:expr;)+) => {
        /// An RPC that is served.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method {
            $($method,)+
        }

        impl Method {
            pub const ALL: &[Self] = &[$(Self::$method,)+];

            /// As it stands in a request: `/package.Service/Method`.
            pub fn path(self) -> &'static str {
                match self {
                    $(Self::$method => $path,)+
                }
            }

            pub fn needs(self) -> Needs {
                match self {
                    $(Self::$method => $needs,)+
                }
            }

            /// The RPC of a request's path.
            pub fn of_path(path: &str) -> Option<Self> {
                match path {
                    $($path => Some(Self::$method),)+
                    _ => None,
                }
            }
        }
    };
}

use Needs::{AnyRole, Nothing, Somewhere};

const CLIENT: Needs = Needs::Role(Role::Client);
const VIEWER: Needs = Needs::Role(Role::Viewer);
const OPERATOR: Needs = Needs::Role(Role::Operator);

rpcs! {
    Acquire             "/holdoff.v1.CoordinatorService/Acquire"            CLIENT;
    Report              "/holdoff.v1.CoordinatorService/Report"             CLIENT;
    Session             "/holdoff.v1.CoordinatorService/Session"            CLIENT;
    PlanCheck           "/holdoff.v1.CoordinatorService/PlanCheck"          CLIENT;

    ShouldRateLimit     "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" CLIENT;

    ListDependencies    "/holdoff.v1.OperatorService/ListDependencies"      VIEWER;
    GetDependency       "/holdoff.v1.OperatorService/GetDependency"         VIEWER;
    WatchDependencies   "/holdoff.v1.OperatorService/WatchDependencies"     VIEWER;
    WatchEvents         "/holdoff.v1.OperatorService/WatchEvents"           VIEWER;
    ListEvents          "/holdoff.v1.OperatorService/ListEvents"            VIEWER;
    ListAudit           "/holdoff.v1.OperatorService/ListAudit"             VIEWER;
    ListPolicies        "/holdoff.v1.OperatorService/ListPolicies"          VIEWER;
    GetPolicy           "/holdoff.v1.OperatorService/GetPolicy"             VIEWER;
    CheckPolicy         "/holdoff.v1.OperatorService/CheckPolicy"           Somewhere(Role::Viewer);
    ListCandidates      "/holdoff.v1.OperatorService/ListCandidates"        VIEWER;
    GetCandidate        "/holdoff.v1.OperatorService/GetCandidate"          VIEWER;
    ListReplicas        "/holdoff.v1.OperatorService/ListReplicas"          VIEWER;

    SetOverride         "/holdoff.v1.OperatorService/SetOverride"           OPERATOR;
    ClearOverride       "/holdoff.v1.OperatorService/ClearOverride"         OPERATOR;
    ResetDependency     "/holdoff.v1.OperatorService/ResetDependency"       OPERATOR;
    ClearHold           "/holdoff.v1.OperatorService/ClearHold"             OPERATOR;
    PutPolicy           "/holdoff.v1.OperatorService/PutPolicy"             OPERATOR;
    DeletePolicy        "/holdoff.v1.OperatorService/DeletePolicy"          OPERATOR;
    PutCandidate        "/holdoff.v1.OperatorService/PutCandidate"          OPERATOR;
    PromoteCandidate    "/holdoff.v1.OperatorService/PromoteCandidate"      OPERATOR;
    DeleteCandidate     "/holdoff.v1.OperatorService/DeleteCandidate"       OPERATOR;

    HealthCheck         "/grpc.health.v1.Health/Check"                      Nothing;
    HealthWatch         "/grpc.health.v1.Health/Watch"                      Nothing;
    Reflection          "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"      AnyRole;
    ReflectionAlpha     "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" AnyRole;
}

impl From<Method> for Needs {
    fn from(method: Method) -> Self {
        method.needs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_row_and_no_other() {
        for method in Method::ALL {
            assert_eq!(Method::of_path(method.path()), Some(*method));
        }
        for other in ["", "/", "/holdoff.v1.OperatorService", "Acquire"] {
            assert_eq!(Method::of_path(other), None);
        }
    }
}
