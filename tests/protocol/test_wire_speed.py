"""How long a small message takes, beside what a stock Jupyter `Session` takes for the same one."""

import timeit
import warnings
from collections.abc import Callable

import pytest

from execzmq.protocol.wire import Codec
from tests.protocol.samples import KEY

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports; none of them is ours to mend
    from jupyter_client.session import Session

CONTENT = {"process_id": "k3v9x0qa-7", "after_seq": 12, "wait": 30.0, "open": []}
CALLS, ROUNDS = 500, 20


def _interleaved(**calls: Callable[[], object]) -> dict[str, float]:
    """Return the best microseconds of each call; a slow moment of the machine hits all of them."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], timeit.timeit(call, number=CALLS) / CALLS * 1e6)
    return best


@pytest.mark.bench
def test_small_message_against_stock_session() -> None:
    """Writing and reading take at most a third of what a stock session takes, its copies included."""
    codec, stock = Codec(KEY, "session"), Session(packer="msgpack", unpacker="msgpack", key=KEY)
    frames = codec.encode("read_request", CONTENT)
    stock.digest_history_size = 0  # it remembers every message, and ours is the same each time
    rest = stock.serialize(stock.msg("read_request", CONTENT))[1:]

    def stock_decode() -> object:
        stock.digest_history.clear()
        return stock.deserialize(rest)

    took = _interleaved(
        encode=lambda: codec.encode("read_request", CONTENT),
        decode=lambda: codec.decode(frames),
        stock_encode=lambda: stock.serialize(stock.msg("read_request", CONTENT)),
        stock_decode=stock_decode,
    )
    print("\n" + ", ".join(f"{name} {us:.1f} us" for name, us in took.items()))
    assert took["encode"] < took["stock_encode"] / 3
    assert took["decode"] < took["stock_decode"] / 3
