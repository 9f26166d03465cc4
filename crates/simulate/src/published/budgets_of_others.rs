//! Retry policies that each client keeps for itself, after Brooker, "Fixing retries with token
//! buckets and circuit breakers" (2022), and the same with one state for all clients.
//!
//! The bucket holds five tokens; each call that starts adds a tenth, a retry needs more than
//! one. The breaker allows retries while the client's failures are at most a tenth of its calls,
//! counted for ever. Each call has three retries at most.

/// What decides over retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    Retries,
    Bucket,
    Breaker,
}

/// The state of one client, or of all.
#[derive(Clone, Copy, Debug)]
pub struct Keeper {
    kind: Local,
    tokens: f64,
    calls: f64,
    failures: f64,
}

impl Keeper {
    pub fn new(kind: Local) -> Self {
        Self {
            kind,
            tokens: 5.0,
            calls: 0.0,
            failures: 0.0,
        }
    }

    /// A call starts.
    pub fn starts(&mut self) {
        self.tokens = (self.tokens + 0.1).min(5.0);
        self.calls += 1.0;
    }

    /// An attempt failed, after so many retries. Whether there is one more.
    pub fn retries(&mut self, retries: u32) -> bool {
        self.failures += 1.0;
        match self.kind {
            Local::Retries => retries < 3,
            Local::Bucket if self.tokens > 1.0 && retries < 3 => {
                self.tokens -= 1.0;
                true
            }
            Local::Bucket => false,
            Local::Breaker => self.failures / self.calls <= 0.1 && retries < 3,
        }
    }
}
