"""Devices: which there are, the default one, what the environment says, moving between them, and their last words."""

from __future__ import annotations

import logging
import os
import threading

import numpy as np
import pytest
from child import output, run

import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices
from ggmlpy_ag.backend.graph import Graph

INFOS = ag.devices()
NAMES = [info.name for info in INFOS]
GPUS = [name for name in NAMES if name != "cpu"]
SOFTWARE = [info.name for info in INFOS if info.kind == "software"]
HARDWARE = [info.name for info in INFOS if info.kind not in ("software", "cpu")]
SMALL_BUFFERS = [i.name for i in INFOS if i.adapter and i.adapter.max_storage_buffer <= 128 << 20]


# ---------------------------------------------------------------- which there are, and the default


def test_the_cpu_is_always_there_and_last():
    assert NAMES[-1] == "cpu"
    assert len(set(NAMES)) == len(NAMES)
    assert all(name.startswith("vulkan:") for name in GPUS)


def test_a_device_says_what_it_is(device):
    info = next(i for i in INFOS if i.name == device)
    assert info.kind in ("cpu", "discrete", "integrated", "virtual", "software", "other")
    assert info.description
    assert str(info) == f"{device} ({info.kind}): {info.description}"
    free, total = info.memory()
    assert 0 < free <= total


def test_the_default_is_a_gpu_if_there_is_one():
    wanted = (HARDWARE or ["cpu"])[0]
    text = output(
        "import ggmlpy_ag as ag; print(ag.device().name, ag.tensor([1.0]).device)", GGMLPY_AG_SOFTWARE_VULKAN="1"
    )
    assert text.split() == [wanted, wanted]


def test_get_set_and_restore(device):
    before = ag.device().name
    with ag.device(device) as chosen:
        assert chosen.name == ag.device().name == device
        assert ag.tensor([1.0]).device == device
        with ag.device("cpu"):
            assert ag.tensor([1.0]).device == "cpu"
            ag.device(device)  # without a block it stays
            assert ag.tensor([1.0]).device == device
        assert ag.device() == device
    assert ag.device().name == before


def test_the_default_is_restored_after_an_error(device):
    before = ag.device()
    with pytest.raises(KeyError), ag.device("cpu"):
        raise KeyError
    assert ag.device() == before


def test_devices_compare_by_name(device):
    assert ag.device() == device
    assert ag.device() == ag.device()
    assert ag.device() != "abacus"
    assert repr(ag.device()) == f"device({device!r})"
    assert {ag.device()} == {ag.device(device)}


def test_vulkan_is_short_for_the_first():
    for name in GPUS[:1]:
        with ag.device("vulkan") as chosen:
            assert chosen == name == "vulkan:0"


def test_the_default_is_local_to_a_thread(device):
    found = []

    def elsewhere():
        with ag.device("cpu"):
            found.append(ag.device().name)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == ["cpu"]
    assert ag.device() == device


@pytest.mark.parametrize("name", ["abacus", "vulkan:99", "cpu:1", "", "CPU", "cuda"])
def test_an_unknown_device(name):
    before = ag.device()
    for use in (ag.device, lambda n: ag.tensor([1.0], device=n), ag.tensor([1.0]).to, ag.memory_stats):
        with pytest.raises(ValueError, match=f"no device '{name}'; there are .*cpu"):
            use(name)
    assert ag.device() == before


def test_an_unknown_vulkan_device_names_who_to_ask():
    with pytest.raises(ValueError, match=r"no device 'vulkan:99'.*doctor"):
        ag.device("vulkan:99")


@pytest.mark.parametrize("name", [3, ["cpu"], b"cpu"])
def test_a_device_is_a_name(name):
    with pytest.raises(TypeError, match="device must be a name"):
        ag.device(name)


def test_a_device_may_be_opened_by_several_threads_at_once():
    """Each name is opened once: two would not understand each other's tensors."""
    output(
        """
        import sys, threading
        import ggmlpy_ag as ag

        def use():
            results.append(ag.tensor([1.0], device=sys.argv[1]))

        sys.setswitchinterval(1e-6)
        results = []
        threads = [threading.Thread(target=use) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert sum(x.item() for x in results) == 8
        total = results[0]
        for x in results[1:]:
            total = total + x
        assert total.item() == 8
        """,
        NAMES[0],
        GGMLPY_AG_SOFTWARE_VULKAN="1",
    )


# ---------------------------------------------------------------- the environment

SHOW = "import ggmlpy_ag as ag; print(ag.tensor([1.0]).device)"


@pytest.mark.parametrize("name", [*NAMES, *(["vulkan"] if GPUS else [])])
def test_the_environment_names_the_default_device(name):
    text = output(SHOW, GGMLPY_AG_DEVICE=name, GGMLPY_AG_SOFTWARE_VULKAN="1")
    assert text.strip() == devices.resolve(name)


@pytest.mark.parametrize("name", ["", "auto"])
def test_the_environment_may_leave_the_default(name):
    assert output(SHOW, GGMLPY_AG_DEVICE=name) == output(SHOW)


def test_the_environment_names_a_device_that_is_not_there():
    done = run(SHOW, GGMLPY_AG_DEVICE="abacus")
    assert done.returncode != 0
    assert "ValueError: GGMLPY_AG_DEVICE: no device 'abacus'; there are " in done.stderr


@pytest.mark.parametrize("wanted", ["0", "", None])
def test_software_vulkan_is_hidden_unless_asked_for(wanted):
    variables = {} if wanted is None else {"GGMLPY_AG_SOFTWARE_VULKAN": wanted}
    text = output("import ggmlpy_ag as ag; print(*(i.name for i in ag.devices()))", **variables)
    assert text.split() == [name for name in NAMES if name not in SOFTWARE]


THREADS = """
import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices
ag.tensor([1.0], device="cpu").exp().numpy()
print(devices.thread_count())
"""


@pytest.mark.parametrize("count", ["1", "3"])
def test_the_environment_chooses_threads(count):
    assert output(THREADS, GGMLPY_AG_NUM_THREADS=count).strip() == count


def test_the_threads_are_the_cores_this_process_may_use():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert output(THREADS).strip() == str(cores)


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5"])
def test_a_wrong_number_of_threads(count):
    done = run(THREADS, GGMLPY_AG_NUM_THREADS=count)
    assert done.returncode != 0
    assert f"ValueError: GGMLPY_AG_NUM_THREADS must be a positive integer, not '{count}'" in done.stderr


def test_several_threads_compute_the_same():
    text = output(
        """
        import numpy as np
        import ggmlpy_ag as ag
        rng = np.random.default_rng(0)
        a, b = rng.uniform(-1, 1, (2, 300, 300)).astype(np.float32)
        with ag.device("cpu"):
            x = ag.tensor(a)
            for found, expected in [(x @ ag.tensor(b), a @ b), ((x * 2).exp().sum(0), np.exp(2 * a).sum(0))]:
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)
        """,
        GGMLPY_AG_NUM_THREADS="4",
    )
    assert text == ""


# ---------------------------------------------------------------- moving between devices


def test_to_moves_the_values(device):
    x = ag.tensor(np.arange(6.0).reshape(2, 3), device="cpu")
    y = x.to(device)
    assert y.device == device
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert y.to("cpu").device == "cpu"
    assert ag.to(y, "cpu").tolist() == x.tolist()


def test_to_the_same_device_is_the_same_tensor(device):
    x = ag.tensor([1.0])
    assert x.to(device) is x


def test_to_moves_views_pending_values_and_integers(device):
    x = ag.tensor(np.arange(12.0).reshape(3, 4), device="cpu")
    assert x.T[1:].to(device).tolist() == x.numpy().T[1:].tolist()
    assert (x * 2.0 + 1.0).to(device).tolist() == (x.numpy() * 2 + 1).tolist()
    labels = ag.tensor([2, 0, 1], device="cpu").to(device)
    assert (labels.tolist(), labels.dtype) == ([2, 0, 1], "int32")
    assert ag.cross_entropy_loss(ag.tensor(np.zeros((3, 3))), labels).item() == pytest.approx(np.log(3))


def test_the_gradient_comes_back_to_the_device_of_its_leaf(device):
    x = ag.param([1.0, 2.0, 3.0], device="cpu")
    w = ag.param([2.0, 2.0, 2.0], device=device)
    with ag.grad_tape():
        h = (x * x).to(device)
        loss = (h * w).to("cpu").sum() * 3.0
    grads = ag.backward(loss)
    assert (grads[x].device, grads[w].device) == ("cpu", device)
    assert grads[x].tolist() == [12.0, 24.0, 36.0]
    assert grads[w].tolist() == [3.0, 12.0, 27.0]


@pytest.mark.parametrize("name", GPUS)
def test_operands_on_two_devices(name):
    a, b = ag.tensor([1.0], device="cpu"), ag.tensor([1.0], device=name)
    for use in (lambda: a + b, lambda: b @ a, lambda: ag.mse_loss(a, b)):
        with pytest.raises(ValueError, match=r"operands are on .* and .*\.to\(device\)"):
            use()


@pytest.mark.parametrize("name", GPUS)
def test_numbers_and_arrays_go_where_the_tensor_is(name):
    x = ag.tensor([1.0, 2.0], device=name)
    with ag.device("cpu"):
        for y in (x + np.ones(2), 1.0 - x, np.ones(2) / x, x + [1.0, 2.0]):
            assert y.device == name


# ---------------------------------------------------------------- precision of products

PRECISION = """
import os, sys
import ggmlpy_ag as ag
ag.set_matmul_precision(sys.argv[1])
assert ag.matmul_precision() == sys.argv[1]
ag.devices()
print(os.environ.get("GGML_VK_DISABLE_F16", "unset"))
ag.set_matmul_precision(sys.argv[1])  # the same again is no change
ag.set_matmul_precision(sys.argv[2])
"""


@pytest.mark.parametrize(("precision", "other", "switch"), [("highest", "high", "1"), ("high", "highest", "unset")])
def test_precision_is_chosen_before_a_device_is_used(precision, other, switch):
    done = run(PRECISION, precision, other)
    assert done.stdout.strip() == switch
    assert f"RuntimeError: set_matmul_precision('{other}') comes too late" in done.stderr


def test_the_default_precision_is_the_highest():
    assert output("import ggmlpy_ag as ag; print(ag.matmul_precision())").strip() == "highest"


def test_an_unknown_precision():
    with pytest.raises(ValueError, match='"highest" or "high", not \'medium\''):
        ag.set_matmul_precision("medium")


# ---------------------------------------------------------------- what a device cannot do


@pytest.fixture
def refuse(monkeypatch):
    """Make devices refuse an operation."""

    def refuse(primitive):
        monkeypatch.setattr(Graph, "_supports", lambda self, node: node.primitive.name != primitive)

    yield refuse
    ag.set_fallback("warn")
    for device in devices.opened():
        device.graph._warned.clear()


@pytest.mark.parametrize("name", GPUS)
def test_a_fallback_is_warned_of_once_counted_and_right(name, refuse, caplog):
    refuse("exp")
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4) / 10
    with ag.device(name), caplog.at_level(logging.WARNING, logger="ggmlpy_ag"):
        before = ag.counters()
        y = (ag.tensor(values).T * 2.0).exp() + 1.0
        np.testing.assert_allclose(y.numpy(), np.exp(values.T * 2) + 1, rtol=1e-6)
        z = ag.tensor(values)[1:].exp()
        np.testing.assert_allclose(z.numpy(), np.exp(values[1:]), rtol=1e-6)
    assert (ag.counters() - before).fallbacks == 2
    assert len(caplog.records) == 1
    assert f"{name} cannot run exp([4, 3]) -> [4, 3]: computed on the CPU, with copies both ways" in caplog.text


@pytest.mark.parametrize("name", GPUS)
def test_an_update_in_place_may_fall_back(name, refuse):
    refuse("adamw_step")
    with ag.device(name):
        ours, theirs = ag.param(np.ones((3, 4))), ag.param(np.ones((3, 4)), device="cpu")
        optimizers = [ag.optim.AdamW([p], lr=0.1) for p in (ours, theirs)]
        before = ag.counters()
        for _ in range(3):
            ours.grad = ag.tensor(np.full((3, 4), 0.5))
            theirs.grad = ours.grad.to("cpu")
            for optimizer in optimizers:
                optimizer.step()
        assert (ag.counters() - before).fallbacks == 3
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", GPUS)
def test_integers_may_fall_back(name, refuse):
    refuse("get_rows")
    with ag.device(name):
        logits = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
        loss = ag.cross_entropy_loss(ag.tensor(logits), [0, 1, 2, 1, 0]).item()
    expected = -np.mean((logits - np.log(np.exp(logits).sum(1, keepdims=True)))[range(5), [0, 1, 2, 1, 0]])
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", GPUS)
def test_fallback_error(name, refuse):
    with ag.device(name):
        x = ag.tensor(np.arange(4.0))
        shared = x * 3.0
        y = shared.reshape(2, 2).exp() + 1.0
        z = shared + 1.0
        ag.set_fallback("error")
        refuse("exp")
        before = ag.counters()
        with pytest.raises(ag.FallbackError, match=rf"{name} cannot run exp\(\[2, 2\]\).*set_fallback"):
            y.numpy()
        assert (ag.counters() - before).fallbacks == 0
        assert z.tolist() == [1.0, 4.0, 7.0, 10.0]  # although y is still wanted
        assert (x + 1.0).tolist() == [1.0, 2.0, 3.0, 4.0]
        ag.set_fallback("warn")
        np.testing.assert_allclose(y.numpy(), np.exp([[0, 3], [6, 9]]) + 1, rtol=1e-6)


@pytest.mark.parametrize("name", SMALL_BUFFERS)
def test_a_tensor_above_the_limit_of_a_storage_buffer(name):
    text = output(
        """
        import logging, sys
        import numpy as np
        import ggmlpy_ag as ag

        logging.basicConfig(stream=sys.stdout, format="%(message)s")
        with ag.device(sys.argv[1]):
            x = ag.tensor(np.full((34, 1 << 20), 0.5, np.float32))
            y = x.exp()
            assert abs(y[33, -1].item() - np.exp(0.5)) < 1e-6
            assert ag.counters().fallbacks == 1
            y = x.exp()
            assert abs(y.numpy().max() - np.exp(0.5)) < 1e-6
            assert ag.counters().fallbacks == 2
            ag.set_fallback("error")
            y = x.exp()
            try:
                y.numpy()
            except ag.FallbackError as error:
                print("error:", error)
            assert ag.counters().fallbacks == 2
            del y
            assert x[:2].exp()[1, -1].item() > 1.6
        """,
        name,
        GGMLPY_AG_SOFTWARE_VULKAN="1",
    )
    operation = "exp([34, 1048576]) -> [34, 1048576]"
    assert text.splitlines() == [
        f"{name} cannot run {operation}: computed on the CPU, with copies both ways",
        f'error: {name} cannot run {operation}; set_fallback("warn") would use the CPU',
    ]


def test_an_unknown_fallback():
    with pytest.raises(ValueError, match='"warn" or "error", not \'ignore\''):
        ag.set_fallback("ignore")


# ---------------------------------------------------------------- loading ggml

IMPORT = "import ggmlpy_ag"


def fake_ggml(path, text):
    package = path / "ggml"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    return path


def test_another_version_of_ggml_python(tmp_path):
    done = run(IMPORT, path=fake_ggml(tmp_path, "__version__ = '0.0.44'"))
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "ImportError: ggmlpy_ag is made for ggml-python 0.0.45 (ggml 0.15.3), but 0.0.44 is installed: "
    )
    assert "pip install ggml-python==0.0.45" in last


def test_a_version_that_does_not_say_so(tmp_path):
    done = run(IMPORT, path=fake_ggml(tmp_path, ""))
    assert "but unknown is installed" in done.stderr.splitlines()[-1]


def test_no_ggml_python():
    done = run("import sys; sys.modules['ggml'] = None; import ggmlpy_ag")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ggmlpy_ag needs ggml-python 0.0.45: ")
    assert "pip install ggml-python==0.0.45" in last


@pytest.mark.parametrize(
    ("name", "hint"), [("libvulkan.so.1", "this build needs the Vulkan loader"), ("libgomp.so.1", "libgomp.so.1")]
)
def test_a_library_that_ggml_needs_is_missing(tmp_path, name, hint):
    text = f"raise OSError('{name}: cannot open shared object file: No such file or directory')"
    done = run(IMPORT, path=fake_ggml(tmp_path, text))
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: ggml's libraries cannot be loaded: {name}: cannot open")
    assert hint in last


def test_importing_opens_no_device_and_prints_nothing():
    text = output(
        """
        import ggmlpy_ag as ag
        from ggmlpy_ag.backend import devices, library
        assert devices.opened() == [] and not library._opened
        """
    )
    assert text == ""


# ---------------------------------------------------------------- what ggml says


def test_ggmls_log_arrives_in_logging(caplog):
    with caplog.at_level(logging.DEBUG, logger="ggmlpy_ag.ggml"), pytest.raises(MemoryError):
        devices.get("cpu").pool.alloc(1 << 50)
    errors = [r for r in caplog.records if r.name == "ggmlpy_ag.ggml"]
    assert any(r.levelno == logging.ERROR and "failed to allocate" in r.getMessage() for r in errors)


def test_without_logging_ggml_is_silent():
    done = run(
        """
        import numpy as np
        import ggmlpy_ag as ag
        for info in ag.devices():
            with ag.device(info.name):
                (ag.tensor(np.ones((4, 4))) @ np.ones((4, 4))).numpy()
        """,
        GGMLPY_AG_SOFTWARE_VULKAN="1",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


ABORT = """
import sys, threading
import numpy as np
import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices, primitives
from ggmlpy_ag.backend.array import FLOAT

def wrong_product():
    a, b = ag.tensor(np.ones((2, 3))), ag.tensor(np.ones((2, 4)))
    return devices.get().graph.record(primitives.MATMUL, (a._array, b._array), (2, 2), FLOAT)

def wrong_index():
    a, b = ag.tensor(np.ones((2, 3))), ag.tensor([7])
    return devices.get().graph.record(primitives.GET_ROWS, (a._array, b._array), (1, 3), FLOAT)

def compute_it():
    with ag.device("cpu"):
        x = ag.Tensor({"product": wrong_product, "index": wrong_index}[sys.argv[1]]())
        print("it lives", x.numpy())

if sys.argv[2] == "main":
    compute_it()
else:
    thread = threading.Thread(target=compute_it)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize(
    ("kind", "operation"),
    [("product", "mul_mat([2, 3], [2, 4]) -> [2, 2]"), ("index", "get_rows([2, 3], [1]) -> [1, 3]")],
)
@pytest.mark.parametrize("where", ["main", "thread"])
def test_when_ggml_ends_the_process_it_says_where_python_was(kind, operation, where):
    """The engine never lets it come so far: these operations are recorded behind its back."""
    done = run(ABORT, kind, where)
    assert done.returncode != 0
    assert "it lives" not in done.stdout
    text = done.stderr
    assert "ggmlpy_ag: ggml gave up: " in text
    assert "GGML_ASSERT" in text
    assert f"operations in the graph:\n  {operation}\n" in text
    stack = text[text.index("Python stack:") :]
    assert "in compute_it" in stack
    assert "please report it" in stack
