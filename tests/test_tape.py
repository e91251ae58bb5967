"""The tape: what is recorded, for how long, and the walk back."""

from __future__ import annotations

import functools
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.tape import current_tape


def ones(*shape):
    return ag.param(np.ones(shape, np.float32))


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)


# ---------------------------------------------------------------- what is recorded


def test_nothing_is_recorded_outside_a_tape(device):
    x = ones(3)
    y = x * x
    assert not y.requires_grad
    assert y.is_leaf


def test_only_operations_on_what_requires_a_gradient_are_recorded(device):
    x, c = ones(3), ag.tensor(np.ones(3))
    with ag.grad_tape() as tape:
        constant = c.exp() + 1.0
        assert len(tape) == 0
        y = (x * constant).sum()
    assert [node.op for node in tape.nodes] == ["mul", "sum"]
    assert not constant.requires_grad and y.requires_grad
    assert x.is_leaf and not y.is_leaf


def test_a_node_has_the_name_that_was_called(device):
    x = ones(2, 2)
    with ag.grad_tape() as tape:
        (-(x.relu() @ x.T - 2.0)).reshape(4)[1:3].mean()
    assert [node.op for node in tape.nodes] == ["relu", "transpose", "matmul", "sub", "neg", "reshape", "index", "mean"]


def test_an_error_in_the_block_ends_the_recording(device):
    x = ones(3)
    with pytest.raises(KeyError), ag.grad_tape():
        x.exp()
        raise KeyError
    assert not (x * x).requires_grad


def test_no_grad_block(device):
    x = ones(3)
    with ag.grad_tape() as tape:
        with ag.no_grad():
            y = x * x
        z = x * y
    assert not y.requires_grad
    assert len(tape) == 1
    assert z.requires_grad


def test_no_grad_decorator(device):
    @ag.no_grad()
    def double(x):
        """Twice x."""
        return x * 2.0

    with ag.grad_tape() as tape:
        assert not double(ones(3)).requires_grad
    assert len(tape) == 0
    assert (double.__name__, double.__doc__) == ("double", "Twice x.")


def test_a_no_grad_function_may_call_itself(device):
    x = ones(3)

    @ag.no_grad()
    def power(n):
        return x if n == 1 else x * power(n - 1)

    with ag.grad_tape() as tape:
        power(4)
        assert len(tape) == 0
        x.exp()
    assert len(tape) == 1


def test_a_no_grad_function_may_run_in_two_threads_at_once():
    inside = threading.Barrier(2)
    errors = []

    @ag.no_grad()
    def meet():
        inside.wait()

    def call():
        try:
            meet()
        except Exception as error:
            errors.append(error)

    run_in_threads(call, call)
    assert errors == []


def test_no_grad_inside_a_tape_inside_no_grad(device):
    x = ones(3)
    with ag.no_grad(), ag.grad_tape() as tape:
        x.exp()
        with ag.no_grad():
            x.exp()
    assert len(tape) == 1


def test_the_innermost_tape_records_and_the_outer_goes_on(device):
    x = ones(3)
    with ag.grad_tape() as outer:
        x.exp()
        with ag.grad_tape() as inner:
            x.relu()
        x.tanh()
    assert [n.op for n in outer.nodes] == ["exp", "tanh"]
    assert [n.op for n in inner.nodes] == ["relu"]


def test_a_value_of_the_outer_tape_is_a_leaf_to_the_inner_one(device):
    x = ag.param([2.0])
    with ag.grad_tape():
        h = x * x
        with ag.grad_tape():
            inner_loss = (h * 3.0).sum()
        grads = ag.backward(inner_loss)
        assert list(grads) == [h]
        assert grads[h].tolist() == [3.0]
        assert x.grad is None
        loss = (h * 5.0).sum()
    assert ag.backward(loss)[x].tolist() == [20.0]


def test_a_value_of_the_inner_tape_is_a_leaf_to_the_outer_one(device):
    x = ag.param([2.0])
    with ag.grad_tape():
        with ag.grad_tape():
            h = x * x
        loss = (h * x).sum()
    grads = ag.backward(loss)
    assert {id(t) for t in grads} == {id(h), id(x)}
    assert grads[h].tolist() == [2.0]
    assert grads[x].tolist() == [4.0]


def test_the_current_tape_is_the_recording_one_even_while_it_is_empty(device):
    x = ones(2)
    with ag.grad_tape() as outer:
        with ag.grad_tape() as inner:
            x.exp()
        assert current_tape() is outer
    assert current_tape() is outer
    assert len(inner) == 1


def test_a_tape_prints_what_it_is(device):
    with ag.grad_tape() as tape:
        ones(2).exp()
    assert repr(tape) == "<tape of 1 operations>"


# ---------------------------------------------------------------- the walk back


def test_backward_returns_this_pass_and_adds_to_grad(device):
    x = ag.param([1.0, 2.0])
    for n in (1, 2, 3):
        with ag.grad_tape():
            loss = (x * x).sum()
        grads = ag.backward(loss)
        assert list(grads) == [x]
        assert grads[x].tolist() == [2.0, 4.0]
        assert x.grad.tolist() == [2.0 * n, 4.0 * n]


def test_backward_is_a_method_too(device):
    x = ag.param([3.0])
    with ag.grad_tape():
        loss = (x * x).sum()
    assert loss.backward()[x].tolist() == [6.0]


def test_gradients_record_nothing_and_need_none_themselves(device):
    x = ones(3)
    with ag.grad_tape() as tape:
        loss = (x * x).sum()
        before = len(tape)
        grads = ag.backward(loss)
        assert len(tape) == before
    assert not grads[x].requires_grad


def test_only_leaves_get_a_gradient(device):
    x = ones(3)
    with ag.grad_tape():
        h = x * 2.0
        loss = (h * h).sum()
    ag.backward(loss)
    assert h.grad is None and loss.grad is None
    assert x.grad.tolist() == [8.0] * 3


def test_a_tensor_without_requires_grad_gets_no_gradient(device):
    x, c = ones(3), ag.tensor(np.ones(3))
    with ag.grad_tape():
        loss = (x * c).sum()
    assert list(ag.backward(loss)) == [x]
    assert c.grad is None


def test_a_leaf_that_the_loss_does_not_depend_on_gets_no_gradient(device):
    x, unused = ones(3), ones(3)
    with ag.grad_tape():
        unused.exp()
        loss = x.sum()
    assert list(ag.backward(loss)) == [x]
    assert unused.grad is None


def test_backward_from_a_leaf_gives_one(device):
    x = ag.param([3.0])
    assert ag.backward(x)[x].tolist() == [1.0]
    assert x.grad.tolist() == [1.0]


def test_a_value_with_four_consumers_gets_the_sum(device):
    w = [ag.param(numbers(6, 4, seed=i)) for i in range(4)]
    x = ag.param(numbers(5, 6))
    with ag.grad_tape():
        h = x.tanh()
        heads = [(h @ wi).sum() for wi in w]
        loss = heads[0] + heads[1] + heads[2] + heads[3]
    grads = ag.backward(loss)
    t = np.tanh(x.numpy().astype(np.float64))
    to_h = sum(np.ones((5, 4)) @ wi.numpy().T for wi in w)
    np.testing.assert_allclose(grads[x].numpy(), to_h * (1 - t * t), rtol=2e-5)
    for wi in w:
        np.testing.assert_allclose(grads[wi].numpy(), t.T @ np.ones((5, 4)), rtol=2e-5)


@pytest.mark.parametrize("consumers", [2, 7, 40])
def test_fan_out(device, consumers):
    x = ag.param([1.0, -2.0])
    with ag.grad_tape():
        h = x * 3.0
        total = h * 1.0
        for k in range(2, consumers + 1):
            total = total + h * float(k)
        loss = total.sum()
    expected = 3.0 * consumers * (consumers + 1) / 2
    assert ag.backward(loss)[x].tolist() == [expected, expected]


def test_one_tensor_as_both_operands(device):
    x = ag.param(numbers(4, 4))
    v = x.numpy().astype(np.float64)
    cases = {
        "x * x": (lambda: x * x, 2 * v),
        "x + x": (lambda: x + x, np.full_like(v, 2)),
        "x - x": (lambda: x - x, np.zeros_like(v)),
        "x / x": (lambda: x / x, np.zeros_like(v)),
        "x @ x.T": (lambda: x @ x.T, 2 * np.ones((4, 4)) @ v),
        "x @ x": (lambda: x @ x, np.ones((4, 4)) @ v.T + v.T @ np.ones((4, 4))),
    }
    for name, (make, expected) in cases.items():
        with ag.grad_tape():
            loss = make().sum()
        np.testing.assert_allclose(ag.backward(loss)[x].numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_two_losses_on_one_tape(device):
    x = ag.param([2.0])
    with ag.grad_tape():
        h = x * x
        first, second = h.sum(), (h * 3.0).sum()
    assert ag.backward(first)[x].tolist() == [4.0]
    assert ag.backward(second)[x].tolist() == [12.0]
    assert x.grad.tolist() == [16.0]


def test_an_earlier_loss_ignores_what_was_recorded_after_it(device):
    x = ag.param([2.0])
    with ag.grad_tape():
        loss = (x * x).sum()
        loss.exp()
    assert ag.backward(loss)[x].tolist() == [4.0]


def test_a_second_backward_gives_the_same(device):
    x = ag.param(numbers(3, 3))
    with ag.grad_tape():
        loss = (x @ x).tanh().sum()
    first = ag.backward(loss)[x].numpy()
    np.testing.assert_array_equal(ag.backward(loss)[x].numpy(), first)
    np.testing.assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-6)


@pytest.mark.parametrize("kind", [list, np.array, ag.tensor])
def test_gradient_argument(device, kind):
    x = ag.param([1.0, 2.0, 3.0])
    with ag.grad_tape():
        y = x * x
    grads = ag.backward(y, kind([1.0, 10.0, 100.0]))
    assert grads[x].tolist() == [2.0, 40.0, 600.0]


def test_gradient_argument_of_a_scalar_loss_scales(device):
    x = ag.param([1.0, 2.0])
    with ag.grad_tape():
        loss = (x * x).sum()
    assert ag.backward(loss, 0.5)[x].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1, 1)])
def test_a_loss_of_one_element_may_have_any_number_of_dimensions(device, shape):
    x = ag.param([2.0, 3.0])
    with ag.grad_tape():
        loss = (x * x).sum().reshape(shape)
    assert loss.shape == shape
    assert ag.backward(loss)[x].tolist() == [4.0, 6.0]


def test_a_gradient_that_was_kept_does_not_change_later(device):
    x = ag.param([2.0])
    kept = []
    for factor in (1.0, 5.0):
        with ag.grad_tape():
            loss = (x * factor).sum()
        kept.append(ag.backward(loss)[x])
    assert [g.tolist() for g in kept] == [[1.0], [5.0]]
    assert x.grad.tolist() == [6.0]


# ---------------------------------------------------------------- gradients of gradients


def test_second_and_third_derivative(device):
    x = ag.param([1.5, -0.5])
    with ag.grad_tape():
        loss = (x * x * x * x).sum()
        first = ag.backward(loss, create_graph=True)[x]
        second = ag.backward(first.sum(), create_graph=True)[x]
        third = ag.backward(second.sum())[x]
    v = np.array([1.5, -0.5])
    np.testing.assert_allclose(first.numpy(), 4 * v**3, rtol=1e-6)
    np.testing.assert_allclose(second.numpy(), 12 * v**2, rtol=1e-6)
    np.testing.assert_allclose(third.numpy(), 24 * v, rtol=1e-6)


def test_gradient_penalty(device):
    """The gradient of |d loss / d x|**2 with respect to a weight."""
    w, x = ag.param(numbers(3, 4)), ag.param(numbers(2, 4))
    with ag.grad_tape():
        loss = (x @ w.T).exp().sum()
        to_x = ag.backward(loss, create_graph=True)[x]
        w.zero_grad()
        penalty = (to_x * to_x).sum()
    found = ag.backward(penalty)[w].numpy()
    wv, xv = w.numpy().astype(np.float64), x.numpy().astype(np.float64)

    def value(w):
        return np.sum((np.exp(xv @ w.T) @ w) ** 2)

    eps = 1e-6
    for at in np.ndindex(wv.shape):
        step = np.zeros_like(wv)
        step[at] = eps
        assert found[at] == pytest.approx((value(wv + step) - value(wv - step)) / (2 * eps), rel=1e-4)


def test_create_graph_needs_a_recording_tape(device):
    x = ones(2)
    with ag.grad_tape():
        loss = (x * x).sum()
    with pytest.raises(RuntimeError, match="create_graph=True .* inside the `with ag.grad_tape"):
        ag.backward(loss, create_graph=True)
    assert x.grad is None


def test_create_graph_needs_the_tape_of_the_loss(device):
    """On an outer tape the inner one's values are leaves: a second derivative would be wrong without a word."""
    x = ones(2)
    with ag.grad_tape():
        with ag.grad_tape():
            loss = (x * x * x).sum()
        with pytest.raises(RuntimeError, match="the loss's own tape"):
            ag.backward(loss, create_graph=True)


# ---------------------------------------------------------------- errors


def test_a_loss_of_several_elements_needs_a_gradient(device):
    with ag.grad_tape():
        y = ones(3, 2) * 2.0
    with pytest.raises(ValueError, match=r"shape is \(3, 2\).*sum\(\) or mean\(\)"):
        ag.backward(y)


def test_a_gradient_of_the_wrong_shape(device):
    x = ones(3, 2)
    with ag.grad_tape():
        y = x * 2.0
    with pytest.raises(ValueError, match=r"gradient has shape \(2, 3\), but the loss has shape \(3, 2\)"):
        ag.backward(y, np.ones((2, 3)))
    assert x.grad is None


@pytest.mark.parametrize("loss", [3.0, None, np.ones(1)])
def test_a_loss_that_is_no_tensor(loss):
    with pytest.raises(TypeError, match="needs a Tensor"):
        ag.backward(loss)


def test_a_loss_that_is_not_on_a_tape(device):
    x = ones(2)
    for loss in ((x * x).sum(), ag.tensor(1.0)):
        with pytest.raises(RuntimeError, match="not on a tape"):
            ag.backward(loss)
    with ag.grad_tape():
        detached = (x * x).sum().detach()
    with pytest.raises(RuntimeError, match="not on a tape"):
        ag.backward(detached)


def forget_by_clear(tape, optimizer):
    tape.clear()


def forget_by_zero_grad(tape, optimizer):
    ag.zero_grad()


def forget_by_optimizer(tape, optimizer):
    optimizer.zero_grad()


@pytest.mark.parametrize("forget", [forget_by_clear, forget_by_zero_grad, forget_by_optimizer])
def test_backward_after_the_tape_was_cleared(device, forget):
    x = ones(2)
    optimizer = ag.optim.SGD([x])
    with ag.grad_tape() as tape:
        loss = (x * x).sum()
    forget(tape, optimizer)
    with pytest.raises(RuntimeError, match="tape is gone"):
        ag.backward(loss)
    assert loss.item() == 2.0  # the value is still there
    assert len(tape) == 0


def test_backward_after_a_new_tape_has_begun(device):
    x = ones(2)
    with ag.grad_tape():
        loss = (x * x).sum()
    with ag.grad_tape():
        x.exp()
    with pytest.raises(RuntimeError, match="tape is gone.*new tape has begun"):
        ag.backward(loss)


def test_zero_grad_forgets_gradients_and_the_tape(device):
    x, y = ones(2), ones(2)
    with ag.grad_tape() as tape:
        loss = (x * y).sum()
    ag.backward(loss)
    ag.zero_grad([x])
    assert x.grad is None and y.grad is not None
    assert len(tape) == 0
    ag.zero_grad({"y": y})
    assert y.grad is None


# ---------------------------------------------------------------- saved values that changed


def test_a_saved_value_that_was_overwritten_is_not_used(device):
    x, y = ones(2, 3), ones(2, 3)
    with ag.grad_tape():
        loss = (x * y).sum()
    y.copy_(7.0)
    with pytest.raises(RuntimeError, match=r"backward of mul: a value of shape \(2, 3\).*overwritten in place"):
        ag.backward(loss)
    assert x.grad is None and y.grad is None


def test_a_view_of_a_saved_value_that_was_overwritten(device):
    x = ones(4, 4)
    with ag.grad_tape():
        loss = (x @ x.T).sum()
    x.detach()[1].copy_(0.0)
    with pytest.raises(RuntimeError, match="backward of matmul.*overwritten"):
        ag.backward(loss)


def test_an_optimizer_step_before_backward(device):
    w = ag.param(numbers(3, 4))
    x = ag.param(numbers(2, 4))
    with ag.grad_tape():
        loss = (x @ w.T).sum()
    ag.backward(loss)
    ag.optim.SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match="backward of matmul.*overwritten"):
        ag.backward(loss)


def test_an_overwritten_tensor_that_no_rule_saved_is_no_error(device):
    w, b, x = ag.param(numbers(3, 4)), ag.param(numbers(3)), ag.tensor(numbers(2, 4))
    with ag.grad_tape():
        h = x @ w.T + b  # the sum needs neither operand, the product only x
        loss = h.sum()
    b.copy_(100.0)
    w.copy_(100.0)
    h.copy_(100.0)
    grads = ag.backward(loss)
    np.testing.assert_allclose(grads[w].numpy(), np.ones((2, 3)).T @ x.numpy(), rtol=1e-6)
    assert grads[b].tolist() == [2.0, 2.0, 2.0]


def times(held, get):
    """A rule that holds an object, and with it the tensor that `get` finds there."""
    return lambda g: (g * get(held),)


@pytest.mark.parametrize(
    "rule",
    [
        lambda saved: lambda g, saved=saved: (g * saved,),
        lambda saved: lambda g, *, saved=saved: (g * saved,),
        lambda saved: functools.partial(lambda saved, g: (g * saved,), saved),
        lambda saved: times([(saved,)], lambda held: held[0][0]),
        lambda saved: times({"v": saved}, lambda held: held["v"]),
        lambda saved: times(lambda: saved, lambda held: held()),
    ],
    ids=["default", "keyword default", "partial", "list of tuple", "dict", "nested function"],
)
def test_an_overwritten_value_is_found_wherever_a_rule_holds_it(device, rule):
    x, saved = ones(2), ag.tensor([2.0, 3.0])
    with ag.grad_tape():
        loss = ag.record("mine", x.detach() * saved, (x,), rule(saved)).sum()
    assert ag.backward(loss)[x].tolist() == [2.0, 3.0]
    saved.copy_(0.0)
    with pytest.raises(RuntimeError, match="backward of mine.*overwritten"):
        ag.backward(loss)


# ---------------------------------------------------------------- operations of one's own


def cube(x):
    out = x.detach() * x.detach() * x.detach()
    return ag.record("cube", out, (x,), lambda g: (g * 3.0 * x * x,))


def test_a_custom_operation(device):
    x = ag.param([1.0, -2.0])
    with ag.grad_tape() as tape:
        loss = cube(x).sum()
    assert tape.nodes[0].op == "cube"
    assert ag.backward(loss)[x].tolist() == [3.0, 12.0]
    assert ag.gradcheck(cube, [ag.param(numbers(3))])


def test_a_custom_operation_has_a_second_derivative(device):
    x = ag.param([1.0, -2.0])
    with ag.grad_tape():
        slope = ag.backward(cube(x).sum(), create_graph=True)[x]
        x.zero_grad()
        loss = slope.sum()
    assert ag.backward(loss)[x].tolist() == [6.0, -12.0]


def test_a_custom_operation_outside_a_tape_is_not_recorded(device):
    out = cube(ag.param([2.0]))
    assert out.tolist() == [8.0]
    assert not out.requires_grad


def test_a_rule_may_give_none_for_an_operand(device):
    x, y = ones(2), ones(2)
    with ag.grad_tape():
        out = ag.record("first", x.detach() * 1.0, (x, y), lambda g: (g, None))
        loss = out.sum()
    assert list(ag.backward(loss)) == [x]


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda g: (g, g), ValueError, "rule of mine returned 2 gradients for 1 operands"),
        (lambda g: (), ValueError, "rule of mine returned 0 gradients for 1 operands"),
        (lambda g: (g[0],), ValueError, r"rule of mine returned a gradient of shape \(3,\) for \(2, 3\)"),
        (lambda g: g, TypeError, "rule of mine returned a Tensor: it must return a tuple"),
        (lambda g: None, TypeError, "rule of mine returned a NoneType"),
        (lambda g: (g.numpy(),), TypeError, "rule of mine returned a ndarray as gradient, not a Tensor"),
        (lambda g: (1.0,), TypeError, "rule of mine returned a float as gradient, not a Tensor"),
    ],
)
def test_a_rule_that_returns_something_wrong(device, rule, error, message):
    x = ones(2, 3)
    with ag.grad_tape():
        loss = ag.record("mine", x.detach() * 1.0, (x,), rule).sum()
    with pytest.raises(error, match=message):
        ag.backward(loss)
    assert x.grad is None


def test_an_error_in_a_rule_arrives_and_leaves_no_gradient(device):
    x, y = ones(2), ones(2)

    def rule(g):
        raise KeyError("mine")

    with ag.grad_tape():
        loss = (ag.record("mine", x.detach() * 1.0, (x,), rule) * y).sum()
    with pytest.raises(KeyError):
        ag.backward(loss)
    assert x.grad is None and y.grad is None
    with ag.grad_tape() as tape:
        x.exp()
    assert len(tape) == 1


def test_a_rule_may_call_a_function_that_calls_itself(device):
    x = ones(2)

    def repeat(g, n):
        return g if n == 0 else repeat(g * 2.0, n - 1)

    with ag.grad_tape():
        loss = ag.record("mine", x.detach() * 8.0, (x,), lambda g: (repeat(g, 3),)).sum()
    assert ag.backward(loss)[x].tolist() == [8.0, 8.0]


def test_a_rule_may_change_a_list_that_it_holds(device):
    x = ones(2)
    calls = []

    def rule(g):
        calls.append(g)
        return (g * 2.0,)

    with ag.grad_tape():
        loss = ag.record("mine", x.detach() * 2.0, (x,), rule).sum()
    for _ in range(3):
        assert ag.backward(loss)[x].tolist() == [2.0, 2.0]
    assert len(calls) == 3


# ---------------------------------------------------------------- deep, threaded, freed


def test_a_chain_of_5000_operations_neither_recurses_nor_overflows(device):
    x = ag.param([1.0])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200 + stack_depth())
    try:
        with ag.grad_tape() as tape:
            y = x
            for _ in range(5000):
                y = y + 0.001
            loss = (y * y).sum()
        assert len(tape) == 5002
        grad = ag.backward(loss)[x].item()
        tape.clear()
    finally:
        sys.setrecursionlimit(limit)
    assert loss.item() == pytest.approx(36.0, rel=1e-3)
    assert grad == pytest.approx(12.0, rel=1e-3)


def stack_depth():
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def test_a_long_chain_that_nobody_wants_is_dropped_uncomputed(device):
    x = ag.param([1.0])
    with ag.grad_tape() as tape:
        y = x.detach()
        ag.counters(reset=True)
        for _ in range(2000):
            y = y + 1.0
    del y
    x.detach().numpy()
    assert len(tape) == 0
    assert ag.counters().nodes == 0


def run_in_threads(*functions):
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_a_tape_does_not_record_another_thread(device):
    x = ones(3)
    with ag.grad_tape() as tape:
        x.exp()

        def elsewhere():
            y = x.exp()
            assert not y.requires_grad
            with ag.grad_tape() as other:
                x.tanh()
            assert len(other) == 1

        run_in_threads(elsewhere)
        assert len(tape) == 1


def test_a_new_tape_in_another_thread_leaves_this_one_alone(device):
    x = ones(3)
    with ag.grad_tape():
        loss = (x * x).sum()

    def elsewhere():
        with ag.grad_tape():
            x.exp()
        ag.zero_grad()

    run_in_threads(elsewhere)
    assert ag.backward(loss)[x].tolist() == [2.0, 2.0, 2.0]


def test_a_loss_and_its_tape_may_come_from_another_thread(device):
    x = ones(3)
    made = []

    def forward():
        with ag.device(device), ag.grad_tape() as tape:
            made.append((tape, (x * x).sum()))

    run_in_threads(forward)
    tape, loss = made[0]
    assert len(tape) == 2
    assert ag.backward(loss)[x].tolist() == [2.0, 2.0, 2.0]


def test_a_tape_ends_with_its_thread(device):
    x = ones(3)
    made = []

    def forward():
        with ag.grad_tape():
            made.append((x * x).sum())

    run_in_threads(forward)
    with pytest.raises(RuntimeError, match="tape is gone"):
        ag.backward(made[0])


def test_threads_that_train_at_the_same_time_do_not_mix(device):
    """Each thread's gradients are those of its own data, whatever the other ones run in between."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def train(seed):
        rng = np.random.default_rng(seed)
        with ag.device(device):
            for _ in range(25):
                w, x = rng.uniform(-1, 1, (8, 16)), rng.uniform(-1, 1, (4, 16))
                weight = ag.param(w)
                with ag.grad_tape():
                    loss = (ag.tensor(x, "float32") @ weight.T).tanh().sum()
                ag.backward(loss)
                h = np.tanh(x @ w.T)
                np.testing.assert_allclose(weight.grad.numpy(), (1 - h * h).T @ x, atol=1e-5)
                assert loss.item() == pytest.approx(h.sum(), abs=1e-4)

    try:
        run_in_threads(*(functools.partial(train, seed) for seed in range(3)))
    finally:
        sys.setswitchinterval(interval)


def test_reference_counting_alone_frees_a_cleared_tape(device):
    w, x = ag.param(numbers(64, 64)), ag.tensor(numbers(16, 64))
    gc.collect()
    gc.disable()
    try:
        before = ag.memory_stats().live
        with ag.grad_tape() as tape:
            h = (x @ w.T).relu()
            loss = ag.cross_entropy_loss(h.softmax(), np.zeros(16, int)) + (h * h).mean()
        grads = ag.backward(loss)
        nodes = [weakref.ref(node) for node in tape.nodes]
        w.grad = None
        del grads
        tape.clear()
        del h, loss
        assert [link() for link in nodes if link() is not None] == []
        assert ag.memory_stats().live == before
    finally:
        gc.enable()


def test_reference_counting_alone_frees_a_tape_that_was_let_go(device):
    w = ag.param(numbers(64, 64))
    gc.collect()
    gc.disable()
    try:
        before = ag.memory_stats().live
        with ag.grad_tape():
            loss = (w @ w).tanh().sum()
        loss.item()
        assert ag.memory_stats().live > before
        with ag.grad_tape():
            del loss
            assert ag.memory_stats().live == before
    finally:
        gc.enable()


def test_a_layer_saves_its_input_and_weight_but_not_its_bias(device):
    x, w, b = ag.param(np.ones((2, 3))), ag.param(np.ones((4, 3))), ag.param(np.ones(4))
    for saved, fails in ((b, False), (w, True), (x, True)):
        with ag.grad_tape():
            loss = ag.linear(x, w, b).sum()
        saved.copy_(2.0)
        if fails:
            with pytest.raises(RuntimeError, match="backward of linear"):
                ag.backward(loss)
        else:
            ag.backward(loss)
            assert b.grad.tolist() == [2.0] * 4
