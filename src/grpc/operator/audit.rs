//! The audit log, a page at a time.

use super::{
    super::{read, shown},
    asked::page_size,
    fitting,
};
use crate::{
    coordinator::{Coordinator, Refusal},
    proto,
    store::Store,
};

pub async fn list<S: Store>(
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
    let mut records = coordinator.audit(namespace, after, limit + 1).await?;
    // One that is gone is answered as long as there is a record of it.
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
    })
}
