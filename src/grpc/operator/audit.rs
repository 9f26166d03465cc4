//! The audit log in pages, and whether all of it holds.

use super::{asked::page_size, fitting};
use crate::{
    coordinator::{Coordinator, Refusal},
    grpc::{read, shown},
    proto,
    store::Store,
};

/// # Errors
/// A field makes no sense, or the data directory cannot be read.
pub async fn listed<S: Store>(
    coordinator: &Coordinator<S>,
    request: &proto::ListAuditRequest,
) -> Result<proto::ListAuditResponse, Refusal> {
    let namespace = read::namespace(&request.namespace)?;
    let limit = page_size(request.page_size)?;
    let after = match request.page_token.as_str() {
        "" => 0,
        token => token
            .parse()
            .map_err(|_| Refusal::invalid("page_token", "not one that a page gave"))?,
    };
    // First: what is written meanwhile comes after the head that is told.
    let chain = match request.verify {
        true => Some(coordinator.audit_chain(namespace).await?),
        false => None,
    };
    let broken = chain.as_ref().and_then(|chain| chain.broken);
    let chain = chain.as_ref().map(shown::audit_chain);
    if broken.is_some() {
        // Its records may not be readable at all.
        return Ok(proto::ListAuditResponse {
            chain,
            ..Default::default()
        });
    }
    let mut records = coordinator.audit(namespace, after, limit + 1).await?;
    // A namespace that is gone is answered as long as there is a record of it.
    if !coordinator.has_namespace(namespace)
        && records.is_empty()
        && coordinator.audit(namespace, 0, 1).await?.is_empty()
    {
        return Err(Refusal::UnknownNamespace(namespace.to_owned()));
    }
    let more = records.len() > limit;
    records.truncate(limit);
    let (records, all) = fitting(records.into_iter().map(shown::audit));
    let last = records.last().filter(|_| more || !all);
    Ok(proto::ListAuditResponse {
        next_page_token: last.map_or_else(String::new, |last| last.sequence.to_string()),
        records,
        chain,
    })
}
