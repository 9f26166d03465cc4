//! What a store that is shared has counted, for those that show it; nothing is decided by it.

/// All nothing where no store is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls of the script that change a record, look at one, drop one.
    pub swaps: u64,
    pub looks: u64,
    pub drops: u64,
    /// Messages to the other replicas.
    pub publishes: u64,
    /// All other commands.
    pub keeps: u64,
    /// Swaps that found another version.
    pub swaps_lost: u64,
    /// Rules that were applied without the store, and with what a swap had made sure of.
    pub decided_in_place: u64,
    pub decided_by_swap: u64,
    pub told: u64,
    pub heard: u64,
    /// Messages of others that never came.
    pub lost: u64,
    /// Records that are in memory.
    pub copies: u64,
    /// The store does not answer, for one of its shards at least.
    pub is_away: bool,
}
