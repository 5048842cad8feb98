use windlass_core::hash::{fnv1a, splitmix64};
use windlass_core::limits::check_one_home;
use windlass_core::route::{Load, SLOTS, Slot, SlotMap, pick};

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

#[test]
fn the_hashes_are_the_published_ones() {
    for (text, hash) in [
        ("", 0xcbf2_9ce4_8422_2325),
        ("a", 0xaf63_dc4c_8601_ec8c),
        ("b", 0xaf63_df4c_8601_f1a5),
        ("foobar", 0x8594_4171_f739_67e8),
        ("chongo was here!\n", 0x4681_0940_eff5_f915),
    ] {
        assert_eq!(fnv1a(text.as_bytes()), hash, "{text:?}");
    }
    let mut state = 1_234_567_u64;
    for expected in [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423] {
        assert_eq!(splitmix64(state), expected);
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
}

#[test]
fn a_key_keeps_its_slot_for_ever() {
    let slots = ["", "a", "order-1", "order-2", "größe"].map(|key| Slot::of(key).index());
    assert_eq!(slots, [816, 295, 123, 469, 644]);
}

#[test]
fn keys_that_differ_little_are_spread_over_all_slots() {
    let mut keys = [0_usize; SLOTS];
    (0..100 * SLOTS).for_each(|number| keys[Slot::of(&format!("order-{number}")).index()] += 1);
    assert!(keys.iter().all(|keys| (50..160).contains(keys)), "{keys:?}");
}

#[test]
fn slots_without_a_map_are_spread_evenly() {
    for partitions in [1, 2, 3, 7, 1024] {
        let mut slots = vec![0_usize; partitions];
        for slot in every_slot() {
            slots[SlotMap::default().home(slot, partitions).unwrap()] += 1;
        }
        let (least, most) = (slots.iter().min().unwrap(), slots.iter().max().unwrap());
        assert!(most - least <= 1, "{partitions}: {slots:?}");
    }
    assert_eq!(SlotMap::default().home(Slot::of("a"), 0), None);
}

#[test]
fn a_map_says_where_its_slots_are_at_home() {
    let map = SlotMap((0..SLOTS).map(|slot| (slot % 3) as u16).collect());
    assert!(every_slot().all(|slot| map.home(slot, 3) == Some(slot.index() % 3)));
    let gone = every_slot().filter(|slot| map.home(*slot, 2).is_none()).count();
    assert_eq!(gone, SLOTS / 3, "those of a partition that is not there have no home");
}

fn every_slot() -> impl Iterator<Item = Slot> {
    let mut slots: Vec<Slot> = (0..100 * SLOTS).map(|number| Slot::of(&number.to_string())).collect();
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), SLOTS);
    slots.into_iter()
}

#[test]
fn a_group_and_an_address_have_one_home_only_where_there_is_one_partition() {
    assert!(check_one_home(true, true, 2).is_err());
    for (group, address, partitions) in [(true, true, 1), (true, false, 2), (false, true, 2)] {
        assert!(check_one_home(group, address, partitions).is_ok());
    }
}

#[test]
fn slots_are_spread_anew_evenly_and_no_more_of_them_move_than_must() {
    let mut map = SlotMap::default();
    let mut before = 2;
    for after in [5, 1, 3, 1024, 7, 7] {
        let next = map.spread(before, after);
        let moved = Slot::all().filter(|slot| map.home(*slot, before) != next.home(*slot, after)).count();
        let mut held = vec![0; after];
        Slot::all().for_each(|slot| held[next.home(slot, after).unwrap()] += 1);
        let (least, most) = (SLOTS / after, SLOTS.div_ceil(after));
        assert!(held.iter().all(|held| (least..=most).contains(held)), "{after}: {held:?}");
        let stay = (SLOTS / before.max(after)) * before.min(after);
        assert!(moved <= SLOTS - stay, "{before} to {after}: {moved} moved");
        (map, before) = (next, after);
    }
}
