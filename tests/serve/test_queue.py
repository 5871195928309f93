"""The queue, without threads or models."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.serve.queue import FullError, Item, Queue, Ticket


def numbers(batch: list[Item]) -> list[object]:
    return [item.payload for item in batch]


def taken(queue: Queue[str], budget: int) -> tuple[str, list[object]] | None:
    found = queue.take(budget)
    return None if found is None else (found[0], numbers(found[1]))


def test_a_batch_fills_its_budget_from_several_requests_in_order() -> None:
    queue: Queue[str] = Queue(1000)
    queue.add("embed", ["a", "b"], [40, 40])
    queue.add("embed", ["c"], [20])
    queue.add("embed", ["d"], [1])
    assert taken(queue, 100) == ("embed", ["a", "b", "c"])
    assert taken(queue, 100) == ("embed", ["d"])
    assert taken(queue, 100) is None


def test_the_lane_that_waits_longest_goes_first_and_lanes_do_not_mix() -> None:
    queue: Queue[str] = Queue(1000)
    queue.add("fill", ["f"], [10])
    queue.add("embed", ["e"], [10])
    queue.add("fill", ["g"], [10])
    assert taken(queue, 100) == ("fill", ["f", "g"])
    assert taken(queue, 100) == ("embed", ["e"])


def test_an_item_larger_than_the_budget_goes_alone() -> None:
    queue: Queue[str] = Queue(1000)
    queue.add("embed", ["long", "short"], [500, 5])
    assert taken(queue, 100) == ("embed", ["long"])
    assert taken(queue, 100) == ("embed", ["short"])


def test_who_left_is_not_computed_and_makes_room_at_once() -> None:
    queue: Queue[str] = Queue(100)
    gone = queue.add("embed", ["a", "b"], [40, 40])
    queue.add("embed", ["c"], [10])
    queue.close(gone)
    assert (queue.size, queue.tokens) == (1, 10)
    queue.add("embed", ["d"], [85])
    assert taken(queue, 100) == ("embed", ["c", "d"])
    queue.close(gone)
    assert (queue.size, queue.tokens) == (0, 0)


def test_who_leaves_after_a_part_was_taken_drops_the_rest() -> None:
    queue: Queue[str] = Queue(100)
    ticket = queue.add("embed", ["a", "b"], [40, 40])
    assert taken(queue, 50) == ("embed", ["a"])
    queue.close(ticket)
    assert taken(queue, 50) is None
    assert (queue.size, queue.tokens) == (0, 0)


def test_a_full_queue_refuses_a_request_whole_but_an_empty_one_takes_any() -> None:
    queue: Queue[str] = Queue(100)
    queue.add("embed", ["huge"], [500])
    with pytest.raises(FullError):
        queue.add("embed", ["a", "b"], [1, 1])
    assert (queue.size, queue.tokens) == (1, 500)


actions = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), st.sampled_from("xyz"), st.lists(st.integers(1, 60), min_size=1, max_size=5)
        ),
        st.tuples(st.just("take"), st.integers(1, 100)),
        st.tuples(st.just("close"), st.integers(0, 20)),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=200)
@given(actions)
def test_nothing_is_lost_doubled_or_over_budget(steps: list[tuple[object, ...]]) -> None:
    queue: Queue[str] = Queue(10**6)
    tickets: list[Ticket] = []
    added: list[tuple[Ticket, int]] = []
    seen: list[tuple[Ticket, int]] = []
    for step in [*steps, *([("take", 50)] * 300)]:
        if step[0] == "add":
            costs: list[int] = step[2]  # type: ignore[assignment]
            ticket = queue.add(str(step[1]), costs, costs)
            tickets.append(ticket)
            added += [(ticket, number) for number in range(len(costs))]
        elif step[0] == "close" and tickets:
            queue.close(tickets[int(str(step[1])) % len(tickets)])
        elif step[0] == "take" and (found := queue.take(int(str(step[1])))):
            batch = found[1]
            assert len(batch) == 1 or sum(item.cost for item in batch) <= int(str(step[1]))
            assert [item.order for item in batch] == sorted(item.order for item in batch)
            assert not any(item.ticket.closed for item in batch)
            seen += [(item.ticket, item.number) for item in batch]
        waiting = [ticket for ticket in tickets if not ticket.closed]
        assert queue.size == sum(ticket.waiting for ticket in waiting)
        assert queue.tokens == sum(ticket.tokens for ticket in waiting)
    assert len(seen) == len(set(seen))
    assert set(seen) >= {pair for pair in added if not pair[0].closed}
    assert (queue.size, queue.tokens) == (0, 0)
