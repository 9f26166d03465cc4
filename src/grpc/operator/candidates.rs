//! The RPCs about candidates: policies that are tried beside the live ones.

use std::sync::Arc;

use super::{
    super::{answer, read, shown},
    DOCUMENT_MAX,
    asked::{actor, selector},
    fitting,
};
use crate::{
    comparison::comparison,
    coordinator::{Compared, Coordinator, Refusal, Tried},
    proto,
    store::Store,
};

/// Dependencies that are shown of one candidate.
const SHOWN_MAX: usize = 100;

pub async fn put<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    request: proto::PutCandidateRequest,
) -> Result<proto::PutCandidateResponse, Refusal> {
    let namespace = read::namespace(&request.namespace)?;
    let name = selector(&request.name)?;
    read::limited("document", &request.document, DOCUMENT_MAX)?;
    let actor = actor(&request.owner, &request.reason)?;
    let put = coordinator
        .put_candidate(namespace, name, &request.document, actor)
        .await?;
    Ok(proto::PutCandidateResponse {
        candidate: Some(candidate(put)),
    })
}

pub fn list<S: Store>(
    coordinator: &Coordinator<S>,
    request: &proto::ListCandidatesRequest,
) -> Result<proto::ListCandidatesResponse, Refusal> {
    let all = coordinator.list_candidates(read::namespace(&request.namespace)?)?;
    Ok(proto::ListCandidatesResponse {
        candidates: all.into_iter().map(candidate).collect(),
    })
}

pub fn get<S: Store>(
    coordinator: &Coordinator<S>,
    request: &proto::GetCandidateRequest,
) -> Result<proto::GetCandidateResponse, Refusal> {
    let namespace = read::namespace(&request.namespace)?;
    let name = selector(&request.name)?;
    let (tried, compared) = coordinator.get_candidate(namespace, name, SHOWN_MAX)?;
    let (dependencies, _) = fitting(compared.into_iter().map(dependency));
    Ok(proto::GetCandidateResponse {
        candidate: Some(candidate(tried)),
        dependencies,
    })
}

pub async fn promote<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    request: proto::PromoteCandidateRequest,
) -> Result<proto::PromoteCandidateResponse, Refusal> {
    let namespace = read::namespace(&request.namespace)?;
    let actor = actor(&request.owner, &request.reason)?;
    let name = selector(&request.name)?;
    let (entry, last) = coordinator
        .promote_candidate(namespace, name, actor)
        .await?;
    Ok(proto::PromoteCandidateResponse {
        policy: Some(shown::policy(namespace, entry)),
        candidate: Some(candidate(last)),
    })
}

pub async fn delete<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    request: proto::DeleteCandidateRequest,
) -> Result<proto::DeleteCandidateResponse, Refusal> {
    let namespace = read::namespace(&request.namespace)?;
    let actor = actor(&request.owner, &request.reason)?;
    let name = selector(&request.name)?;
    coordinator.delete_candidate(namespace, name, actor).await?;
    Ok(proto::DeleteCandidateResponse {})
}

fn candidate(tried: Tried) -> proto::Candidate {
    proto::Candidate {
        comparison: Some(comparison(&tried.numbers)),
        namespace: tried.namespace,
        name: tried.name,
        document: tried.stored.document,
        owner: tried.stored.owner,
        put_time: Some(tried.stored.put_at.into()),
        dependencies: tried.dependencies,
        left_out: tried.left_out,
        problem: tried.problem,
    }
}

fn dependency(compared: Compared) -> proto::ComparedDependency {
    proto::ComparedDependency {
        candidate_state: answer::state(compared.state).into(),
        comparison: Some(comparison(&compared.numbers)),
        dependency: compared.dependency,
    }
}
