//! Random numbers from a seed: xoshiro256**, filled by splitmix64. Ours, so that a seed means the same for ever.

#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self([(); 4].map(|()| splitmix(&mut state)))
    }

    /// A stream of its own, so that one part drawing more does not shift what the others draw.
    pub fn fork(&mut self) -> Self {
        Self::new(self.draw())
    }

    pub fn draw(&mut self) -> u64 {
        let s = &mut self.0;
        let drawn = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        drawn
    }

    /// 0 for a bound of 0, otherwise below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Both ends included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in so many of a million cases.
    pub fn per_million(&mut self, rate: u32) -> bool {
        rate > 0 && self.below(1_000_000) < u64::from(rate)
    }

    pub fn percent(&mut self, percent: u32) -> bool {
        self.per_million(percent * 10_000)
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Spread over orders of magnitude: small ones as often as large ones.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let mut top = high;
        while top / 4 > low && self.percent(60) {
            top /= 4;
        }
        self.between(low, top)
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
