use windlass_core::route::{Load, pick};

fn load(waiting: u64, scheduled: u64) -> Load {
    Load { healthy: true, waiting, scheduled }
}

#[test]
fn the_fewest_of_what_is_produced_wins() {
    let loads = [load(5, 0), load(3, 9), load(4, 1)];
    assert_eq!(pick(&loads, false, 0), Some(1));
    assert_eq!(pick(&loads, true, 0), Some(0));
}

#[test]
fn equals_take_turns() {
    let loads = [load(1, 0), load(0, 0), load(0, 0)];
    assert_eq!(pick(&loads, false, 0), Some(1));
    assert_eq!(pick(&loads, false, 2), Some(2));
    assert_eq!(pick(&loads, false, 3), Some(1));
    assert_eq!(pick(&loads, false, usize::MAX), pick(&loads, false, usize::MAX % 3));
}

#[test]
fn the_unhealthy_are_gone_around() {
    let sick = Load { healthy: false, ..load(0, 0) };
    assert_eq!(pick(&[sick, load(100, 0)], false, 0), Some(1));
    assert_eq!(pick(&[sick, sick], false, 1), None);
    assert_eq!(pick(&[], false, 1), None);
}
