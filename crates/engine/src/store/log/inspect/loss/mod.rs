//! The loss of a damaged log: [`rescue`] takes in all that is read of it, the [`ledger`] counts what is there and what is
//! missing of each item ([`known`]), and the [`verdict`] tells which damage costs something. The result is an [`account`].

pub(crate) mod account;
mod known;
mod ledger;
pub(crate) mod rescue;
pub(crate) mod verdict;
