"""Documents put together from compact parts are what the encoder would have written (JSON-050 to JSON-054)."""

from hypothesis import given
from hypothesis import strategies as st

from protocol3.contract.strict_json import compact_size, encode
from protocol3.core.records import Activation
from protocol3.core.workflow.compact import compact_array, compact_object
from protocol3.core.workflow.local import ledger_bytes

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | text, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(text, values, max_size=5))
def test_objects(members):
    assert compact_object({name: encode(value) for name, value in members.items()}) == encode(members)


@given(st.lists(values, max_size=5))
def test_arrays_and_the_local_ledger(elements):
    """LIM-012: the ledger is measured without ever writing the array."""
    parts = [encode(element) for element in elements]
    assert compact_array(parts) == encode(elements)
    activation = Activation(
        task_id="t",
        workflow_id="w",
        revision=0,
        local_count=len(parts),
        local_bytes=sum(map(len, parts)),
        fork_count=0,
        fork_bytes=0,
        new_children=0,
    )
    assert ledger_bytes(activation) == compact_size(elements)
