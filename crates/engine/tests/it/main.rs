#[cfg(test)]
mod log_basics;
#[cfg(test)]
mod log_disk;
#[cfg(test)]
mod log_rows;
