//! How long a failed attempt waits for the next.

use crate::hash::splitmix64;
use crate::id::ItemId;
use crate::settings::{RetryPolicy, RetryStrategy};
use crate::time::Span;

/// `min(max, initial × factor^(attempts − 1))`, for a fixed policy always `initial`, times a number within
/// 1 ± jitter. The number comes from the item and the attempt, so that the same history gives the same delays.
///
/// Any policy gives a delay: a factor or jitter that makes no sense counts as none.
pub fn delay(policy: &RetryPolicy, attempts: u32, id: ItemId) -> Span {
    let initial = policy.initial.0 as f64;
    let base = match policy.strategy {
        RetryStrategy::Fixed => initial,
        RetryStrategy::Exponential => {
            // Zero times infinity would be no number.
            let factor = if initial == 0.0 { 1.0 } else { sound(policy.factor, 1.0) };
            (initial * power(factor, attempts.saturating_sub(1))).min(policy.max.0 as f64)
        }
    };
    let jitter = sound(policy.jitter, 0.0).min(1.0);
    let stretch = 1.0 + jitter * (2.0 * fraction(id, attempts) - 1.0);
    // The cast saturates at both ends.
    Span((base * stretch).round() as u64)
}

fn sound(value: f64, otherwise: f64) -> f64 {
    if value.is_finite() && value >= 0.0 { value } else { otherwise }
}

/// By squaring, since the result of `powi` may differ from one platform to the next.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

/// In `0..1`, spread evenly over items and attempts.
fn fraction(id: ItemId, attempts: u32) -> f64 {
    let place = splitmix64(u64::from(id.partition.0) << 32 | u64::from(attempts));
    let hash = splitmix64(place ^ id.number.0);
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}
