//! Bits that flip on a disk.

use windlass_engine::store::log::disk::{Disk, write_all};
use windlass_sim::disk::{Hardware, RotTarget};
use windlass_sim::fault::Fault;
use windlass_sim::plan::Plan;
use windlass_sim::rng::Rng;

use crate::disk::{process, with_faults};

const SEGMENT: &str = "00000001.seg";

/// A disk with one segment of these bytes, durable or only written.
fn segment(bytes: &'static [u8], synced: bool) -> (Hardware, crate::disk::Faults) {
    let (log, faults) = with_faults();
    let hardware = Hardware::new(Rng::new(1), log);
    let made = process(&hardware, move |disk| {
        Box::pin(async move {
            let file = disk.create(SEGMENT).await?;
            write_all(&*file, 0, bytes).await?;
            if synced {
                file.sync().await?;
                disk.sync().await?;
            }
            Ok::<(), std::io::Error>(())
        })
    });
    made.1.expect("it finishes").expect("a sound disk");
    (hardware, faults)
}

fn flipped_bits(before: &[u8], after: &[u8]) -> u32 {
    before.iter().zip(after).map(|(before, after)| (before ^ after).count_ones()).sum()
}

#[test]
fn rot_flips_one_bit_for_good_and_is_recorded() {
    let (hardware, faults) = segment(&[0; 64], true);
    hardware.rot(RotTarget::Segment, &mut Rng::new(7)).expect("there is a segment");
    assert_eq!(flipped_bits(&[0; 64], &hardware.contents()[SEGMENT]), 1);
    hardware.crash();
    assert_eq!(flipped_bits(&[0; 64], &hardware.contents()[SEGMENT]), 1);
    assert!(faults.lock().expect("nobody panics").contains(&Fault::Rot));
}

#[test]
fn rot_spares_what_is_not_durable() {
    let (hardware, faults) = segment(&[0; 64], false);
    assert_eq!(hardware.rot(RotTarget::Segment, &mut Rng::new(7)), None);
    assert_eq!(hardware.contents()[SEGMENT], [0; 64]);
    assert!(faults.lock().expect("nobody panics").is_empty());
}

#[test]
fn rot_of_a_body_hits_the_letters_of_a_body() {
    let (hardware, _) = segment(b"............17:rrrrrrrrrrrrrrrr.................", true);
    for seed in 1..=20 {
        let before = hardware.contents().remove(SEGMENT).expect("the segment is there");
        let Some(_) = hardware.rot(RotTarget::Body, &mut Rng::new(seed)) else { break };
        let after = hardware.contents().remove(SEGMENT).expect("the segment is there");
        let hit = before.iter().zip(&after).position(|(before, after)| before != after);
        assert!(hit.is_some_and(|hit| (15..31).contains(&hit)), "byte {hit:?}");
    }
}

#[test]
fn every_kind_of_rot_is_drawn() {
    let plans = (1..=1_000).filter_map(|seed| Plan::draw(&mut Rng::new(seed)).rot);
    let drawn: Vec<RotTarget> = plans.map(|rot| rot.target).collect();
    for target in RotTarget::ALL {
        assert!(
            drawn.iter().filter(|drawn| **drawn == target).count() >= 10,
            "{target:?} of {}",
            drawn.len()
        );
    }
}
