#[cfg(test)]
mod log_basics;
#[cfg(test)]
mod log_damage;
#[cfg(test)]
mod log_disk;
#[cfg(test)]
mod log_failure;
#[cfg(test)]
mod log_inspect;
#[cfg(test)]
mod log_rows;
#[cfg(test)]
mod log_upkeep;
