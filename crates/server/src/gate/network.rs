//! Networks: addresses that share their first bits.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::host::Unreadable;

/// The first 96 bits of every IPv4-mapped address.
const MAPPED_BITS: u32 = 96;

/// An entry of `trusted_proxies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, other) = (Bits::of(self.address), Bits::of(address.to_canonical()));
        own.width == other.width
            && (own.bits ^ other.bits).checked_shr(own.width - self.prefix).unwrap_or(0) == 0
    }
}

struct Bits {
    bits: u128,
    width: u32,
}

impl Bits {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self { bits: address.to_bits().into(), width: 32 },
            IpAddr::V6(address) => Self { bits: address.to_bits(), width: 128 },
        }
    }

    /// Those after the first `prefix` bits.
    fn beyond(&self, prefix: u32) -> u128 {
        self.bits & 1u128.checked_shl(self.width - prefix).map_or(u128::MAX, |first| first - 1)
    }
}

impl FromStr for Network {
    type Err = Unreadable;

    /// `10.0.0.5`, `10.0.0.0/8` or `fd00::/8`. Bits beyond the prefix are refused: more was written than would count.
    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| Unreadable)?;
        let bits = Bits::of(address);
        let prefix = prefix.map_or(Ok(bits.width), prefix_of)?;
        if prefix > bits.width || bits.beyond(prefix) != 0 {
            return Err(Unreadable);
        }
        Ok(Self { address, prefix }.canonical())
    }
}

fn prefix_of(text: &str) -> Result<u32, Unreadable> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().map_err(|_| Unreadable) } else { Err(Unreadable) }
}

impl Network {
    fn canonical(self) -> Self {
        let address = self.address.to_canonical();
        let is_mapped = self.address.is_ipv6() && address.is_ipv4() && self.prefix >= MAPPED_BITS;
        if is_mapped { Self { address, prefix: self.prefix - MAPPED_BITS } } else { self }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.prefix == Bits::of(self.address).width;
        if whole { self.address.fmt(f) } else { write!(f, "{}/{}", self.address, self.prefix) }
    }
}
