use proptest::prelude::*;
use uuid::Uuid;
use windlass_core::id::{ItemId, ItemNumber, NUMBER_MAX, PartitionId};

fn id() -> impl Strategy<Value = ItemId> {
    (0..=NUMBER_MAX, any::<u32>()).prop_map(|(number, partition)| ItemId {
        number: ItemNumber(number),
        partition: PartitionId(partition),
    })
}

proptest! {
    #[test]
    fn an_id_comes_back_from_its_uuid_and_sorts_by_number(one in id(), other in id()) {
        let uuid = one.to_uuid();
        prop_assert_eq!(ItemId::from_uuid(uuid), Some(one));
        prop_assert_eq!((uuid.get_version_num(), uuid.get_variant()), (8, uuid::Variant::RFC4122));
        prop_assert_eq!(uuid.cmp(&other.to_uuid()), one.cmp(&other));
    }

    #[test]
    fn a_uuid_is_an_items_only_if_it_was_made_as_one(bits in any::<u128>()) {
        let uuid = Uuid::from_u128(bits);
        prop_assert!(ItemId::from_uuid(uuid).is_none_or(|id| id.to_uuid() == uuid));
    }

    #[test]
    fn every_uuid_has_its_place_among_the_ids(bits in any::<u128>(), near in id(), far in -3..4i128, other in id()) {
        let near_one = Uuid::from_u128(near.to_uuid().as_u128().wrapping_add_signed(far << 40 | far));
        for uuid in [Uuid::from_u128(bits), near.to_uuid(), near_one] {
            let last = ItemId::not_after(uuid);
            prop_assert!(last.is_none_or(|last| last.to_uuid() <= uuid));
            prop_assert_eq!(Some(other) <= last, other.to_uuid() <= uuid);
        }
        prop_assert_eq!(ItemId::not_after(near.to_uuid()), Some(near));
    }
}

#[test]
fn a_uuid_before_all_ids_stands_nowhere() {
    assert_eq!(ItemId::not_after(Uuid::nil()), None);
}

#[test]
fn a_random_uuid_is_no_items() {
    assert_eq!(ItemId::from_uuid(Uuid::nil()), None);
    assert_eq!(ItemId::from_uuid("6a2f41a3-c54c-4ce8-82d2-0324e1c32e22".parse().unwrap()), None);
}
