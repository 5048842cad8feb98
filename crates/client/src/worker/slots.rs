//! Who runs, who has given its slot up to wait for other items, and who is next to have one back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, watch};

use super::limits::{Limits, Running, Wants};

#[derive(Debug)]
pub(super) struct Slots {
    limits: Limits,
    floor: Mutex<Floor>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Floor {
    running: Running,
    seats: BTreeMap<u64, Seat>,
    /// Those who want theirs back, in the order in which they came. They go before new leases.
    returning: VecDeque<u64>,
    last_number: u64,
}

/// One started item.
#[derive(Debug)]
struct Seat {
    kind: String,
    /// How many waits of its handler are under way.
    waits: usize,
    has_slot: watch::Sender<bool>,
}

/// A started item's place: free again when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    has_slot: watch::Receiver<bool>,
}

/// One wait of a handler; it has no slot meanwhile.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    slot: &'a Slot,
    over: bool,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, floor: Mutex::default(), changed: Notify::new() })
    }

    /// What a lease may ask for once these slots are free, and those who want theirs back have had their turn.
    pub(super) fn wants_without(&self, ended: &[u64]) -> Option<Wants> {
        let floor = self.floor();
        let mut running = floor.running.clone();
        for seat in ended.iter().filter_map(|number| floor.seats.get(number)) {
            if *seat.has_slot.borrow() {
                running.remove(&seat.kind);
            }
        }
        let returning = floor.returning.iter().filter(|number| !ended.contains(number));
        for seat in returning.map(|number| &floor.seats[number]) {
            if self.limits.admits_back(&running, &seat.kind) {
                running.add(&seat.kind);
            }
        }
        self.limits.wants(&running)
    }

    /// Frees the slot of an item that is out of this worker's hands. Its [`Slot`] may be dropped later.
    pub(super) fn end(&self, number: u64) {
        self.change(|floor| floor.end(number));
    }

    /// Whether a handler waits for other items.
    pub(super) fn anybody_waits(&self) -> bool {
        self.floor().seats.values().any(|seat| seat.waits > 0)
    }

    fn is_waiting(&self, number: u64) -> bool {
        self.floor().seats.get(&number).is_some_and(|seat| seat.waits > 0)
    }

    /// None if the item may not start.
    pub(super) fn take(self: &Arc<Self>, kind: &str, priority: u32) -> Option<Slot> {
        let floor = &mut *self.floor();
        if !self.limits.admits(&floor.running, kind, priority) {
            return None;
        }
        floor.running.add(kind);
        floor.last_number += 1;
        let (sender, has_slot) = watch::channel(true);
        floor.seats.insert(floor.last_number, Seat { kind: kind.to_owned(), waits: 0, has_slot: sender });
        Some(Slot { slots: Arc::clone(self), number: floor.last_number, has_slot })
    }

    /// When something else may start than before, perhaps.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn change(&self, change: impl FnOnce(&mut Floor)) {
        let floor = &mut *self.floor();
        change(floor);
        // One whose kind has no room lets those of other kinds pass.
        for number in std::mem::take(&mut floor.returning) {
            if self.limits.admits_back(&floor.running, &floor.seats[&number].kind) {
                floor.seat_again(number);
            } else {
                floor.returning.push_back(number);
            }
        }
        self.changed.notify_one();
    }

    fn floor(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().expect("nothing panics while it holds this")
    }
}

impl Floor {
    fn seat_again(&mut self, number: u64) {
        let seat = &self.seats[&number];
        self.running.add(&seat.kind);
        seat.has_slot.send_replace(true);
    }

    fn give_up(&mut self, number: u64) {
        // A handler may have left a task behind that waits after the item's end.
        let Some(seat) = self.seats.get_mut(&number) else { return };
        seat.waits += 1;
        if seat.has_slot.send_replace(false) {
            self.running.remove(&seat.kind);
        }
        self.returning.retain(|other| *other != number);
    }

    /// The slot is wanted back when the last of the handler's waits has ended.
    fn end_wait(&mut self, number: u64) {
        let Some(seat) = self.seats.get_mut(&number) else { return };
        seat.waits -= 1;
        if seat.waits == 0 {
            self.returning.push_back(number);
        }
    }

    fn seat_at_once(&mut self, number: u64) {
        if self.returning.contains(&number) {
            self.returning.retain(|other| *other != number);
            self.seat_again(number);
        }
    }

    fn end(&mut self, number: u64) {
        let Some(seat) = self.seats.remove(&number) else { return };
        if *seat.has_slot.borrow() {
            self.running.remove(&seat.kind);
        }
        self.returning.retain(|other| *other != number);
    }
}

impl Slot {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn give_up(&self) -> Waiting<'_> {
        self.slots.change(|floor| floor.give_up(self.number));
        Waiting { slot: self, over: false }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.change(|floor| floor.end(self.number));
    }
}

impl Waiting<'_> {
    /// As soon as there is room, and before any new item gets it. While the handler has another wait under way, at once.
    pub(super) async fn take_back(mut self) {
        self.over = true;
        let (slots, number) = (&self.slot.slots, self.slot.number);
        slots.change(|floor| floor.end_wait(number));
        if !slots.is_waiting(number) {
            let mut has_slot = self.slot.has_slot.clone();
            let _worker_gone = has_slot.wait_for(|has_slot| *has_slot).await;
        }
    }
}

impl Drop for Waiting<'_> {
    /// A handler that drops a wait goes on at once: for a moment one too many may run.
    fn drop(&mut self) {
        self.slot.slots.change(|floor| {
            if !self.over {
                floor.end_wait(self.slot.number);
            }
            floor.seat_at_once(self.slot.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn slots(total: usize) -> Arc<Slots> {
        Slots::new(Limits::new(&[(0, total)].into(), None, None, BTreeMap::new()))
    }

    fn room(slots: &Slots) -> u32 {
        slots.wants_without(&[]).map_or(0, |wants| wants.batch_size)
    }

    fn is_ready(future: std::pin::Pin<&mut impl Future>) -> bool {
        matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
    }

    #[test]
    fn who_waits_has_no_slot_and_takes_it_back_before_new_items() {
        let slots = slots(1);
        let parent = slots.take("a", 0).unwrap();
        assert!(slots.take("a", 0).is_none());
        let waiting = parent.give_up();
        let child = slots.take("a", 0).unwrap();
        {
            let mut back = pin!(waiting.take_back());
            assert!(!is_ready(back.as_mut()), "the child has the slot");
            drop(child);
            assert_eq!(room(&slots), 0, "the parent goes first");
            assert!(is_ready(back.as_mut()));
        }
        drop(parent);
        assert_eq!(room(&slots), 1);
    }

    #[test]
    fn one_whose_kind_has_no_room_does_not_keep_others_from_coming_back() {
        let kinds = Some(vec!["a".to_owned(), "b".to_owned()]);
        let limits = Limits::new(&[(0, 3)].into(), None, kinds, [("b".to_owned(), 1)].into());
        let slots = Slots::new(limits);
        let (first, other) = (slots.take("b", 0).unwrap(), slots.take("a", 0).unwrap());
        let (first_waits, other_waits) = (first.give_up(), other.give_up());
        let second = slots.take("b", 0).unwrap();
        let mut first_back = pin!(first_waits.take_back());
        assert!(!is_ready(first_back.as_mut()), "the second has the slot of their kind");
        assert!(is_ready(pin!(other_waits.take_back())));
        // Nor new items of other kinds.
        let wants = slots.wants_without(&[]).unwrap();
        assert_eq!((wants.batch_size, wants.kinds), (1, Some(vec!["a".to_owned()])));
        drop(second);
        assert!(is_ready(first_back.as_mut()));
    }

    #[test]
    fn a_wait_that_is_dropped_takes_the_slot_back_at_once() {
        let slots = slots(1);
        let parent = slots.take("a", 0).unwrap();
        let waiting = parent.give_up();
        let child = slots.take("a", 0).unwrap();
        drop(waiting);
        drop(child);
        assert_eq!(room(&slots), 0);
        let waiting = parent.give_up();
        let child = slots.take("a", 0).unwrap();
        {
            let mut back = pin!(waiting.take_back());
            assert!(!is_ready(back.as_mut()));
        }
        drop(child);
        assert_eq!(room(&slots), 0);
        drop(parent);
        assert_eq!(room(&slots), 1);
    }

    #[test]
    fn of_several_waits_the_last_takes_the_slot_back() {
        let slots = slots(1);
        let parent = slots.take("a", 0).unwrap();
        let (first, second) = (parent.give_up(), parent.give_up());
        assert!(is_ready(pin!(first.take_back())));
        assert_eq!(room(&slots), 1);
        assert!(is_ready(pin!(second.take_back())));
        assert_eq!(room(&slots), 0);
    }

    #[test]
    fn a_slot_that_is_about_to_be_free_goes_first_to_who_wants_one_back() {
        let slots = slots(2);
        let (parent, ending) = (slots.take("a", 0).unwrap(), slots.take("a", 0).unwrap());
        let without = |slot: &Slot| slots.wants_without(&[slot.number()]).map_or(0, |wants| wants.batch_size);
        assert_eq!((room(&slots), without(&ending)), (0, 1));
        let waiting = parent.give_up();
        let _child = slots.take("a", 0).unwrap();
        let mut back = pin!(waiting.take_back());
        assert!(!is_ready(back.as_mut()));
        assert_eq!(without(&ending), 0, "the parent goes first");
    }

    #[test]
    fn a_slot_can_be_freed_before_it_is_dropped() {
        let slots = slots(1);
        let slot = slots.take("a", 0).unwrap();
        slots.end(slot.number());
        assert_eq!(room(&slots), 1);
        let _next = slots.take("a", 0).unwrap();
        drop(slot);
        assert_eq!(room(&slots), 0);
    }

    #[test]
    fn an_item_that_ends_while_it_waits_leaves_nothing_behind() {
        let slots = slots(2);
        let parent = slots.take("a", 0).unwrap();
        std::mem::forget(parent.give_up());
        drop(parent);
        assert_eq!(room(&slots), 2);
        assert!(!slots.anybody_waits());
    }
}
