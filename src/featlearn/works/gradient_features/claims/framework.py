"""The framework's own statements: losses, starts, gradients, cones, and one-step training."""

import math

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.pending import Case, Claim, Evidence, Tables
from featlearn.learn.framework import forgetful_step, joint, one_step, smoothness
from featlearn.measure.best_network import best_network, mean_loss
from featlearn.measure.gradient_features import gaussian_gradients, in_cone, membership, simplified_gradients
from featlearn.nets import TwoLayer, gradients, symmetric_init
from featlearn.nets.pointwise import loss_slope, loss_value
from featlearn.tasks import GaussianMixture
from featlearn.works.gradient_features.setup import turned

Array = np.ndarray


def double(net: TwoLayer) -> TwoLayer:
    """The same network in float64."""
    return TwoLayer(net.w.double(), net.b.double(), net.a.double(), net.activation)


def xor_sample(d: int, n: int, key: Key) -> tuple[torch.Tensor, torch.Tensor]:
    """n samples of the four-cluster XOR mixture in float64."""
    task = GaussianMixture.xor(d=d)
    batch = task.sample(task.draw(key / "truth"), n, key / "data")
    return batch.x.double(), batch.y.double()


def loss_facts(kind: str, unit: float = 1.0) -> Array:
    """l(0), largest slope, |l'(0)|, smallest second difference, l at 60; of loss(unit z) / unit."""
    z = torch.linspace(-60, 60, 240_001, dtype=torch.float64)
    one = torch.ones_like(z)
    value, slope = loss_value(unit * z, one, kind) / unit, loss_slope(unit * z, one, kind)
    half = len(z) // 2
    return np.array(
        [
            float(value[half]),
            float(slope.abs().max()),
            float(slope[half].abs()),
            min(0.0, float(value.diff().diff().min())),
            float(value[-1]),
        ]
    )


def check_loss(key: Key, tables: Tables) -> Evidence:
    """Assumption 3.1 for the hinge, from the engine's loss and its slope."""
    return Evidence(
        (
            Case(
                "hinge: l(0), Lipschitz constant, |l'(0)|, convex, l at infinity",
                predict=[1, 1, 1, 0, 0],
                observe=loss_facts("hinge"),
                rival=loss_facts("logistic"),
                tolerance=1e-9,
                rival_says="the logistic loss",
            ),
        ),
        comment="Theorem 3.4 asks in addition for an L-smooth loss, which the hinge is not at 1; and Gaussian inputs "
        "keep a bound ||x|| <= B_x only with high probability.",
    )


def check_logistic(key: Key, tables: Tables) -> Evidence:
    """Remark 3.2: the logistic loss in the units that Assumption 3.1 asks for."""
    plain, scaled = loss_facts("logistic"), loss_facts("logistic", math.log(2))
    return Evidence(
        (
            Case(
                "log2(1 + 2^-z): l(0), Lipschitz constant, |l'(0)|, convex, l at infinity",
                predict=[1, 1, 0.5, 0, 0],
                observe=scaled,
                rival=plain,
                tolerance=1e-8,
                rival_says="log(1 + exp(-z)), in natural units",
            ),
        ),
        comment="log(1 + exp(-z)) itself has l(0) = ln 2: value and argument have to be scaled together, by ln 2.",
    )


def check_start(key: Key, tables: Tables) -> Evidence:
    """Lemma B.71 on the symmetric start and after one forgetful step."""
    m, d = 6, 8
    net = double(symmetric_init(m, d, key / "net", sigma_w=0.4, sigma_a=1.0, bias=0.6))
    x, y = xor_sample(d, 300, key)
    tilt = x + 0.5 * y[:, None]
    score = net(x)[:, 0].numpy()
    w = forgetful_step(net, tilt, y, 0.7).w[0]
    both, signs = torch.cat([tilt, -tilt]), torch.cat([y, y])  # then the mean of y x is exactly 0
    even = forgetful_step(net, both, signs, 0.7).w[0]
    zero = np.zeros((2 * m, d))
    return Evidence(
        (
            Case("g = 0", predict=np.zeros(300), observe=score, rival=0 * score + 1, tolerance=1e-12, rival_says="1"),
            Case(
                "w_i^(1) = -w_(i+2m)^(1)",
                predict=zero,
                observe=(w[: 2 * m] + w[2 * m :]).numpy(),
                rival=2 * w[: 2 * m].numpy(),
                tolerance=1e-12,
                rival_says="equal, not opposite",
            ),
            Case(
                "E[yx] = 0: w_i^(1) = w_(i+m)^(1)",
                predict=zero[:m],
                observe=(even[:m] - even[m : 2 * m]).numpy(),
                rival=(w[:m] - w[m : 2 * m]).numpy(),
                tolerance=1e-12,
                rival_says="what it is where E[yx] is not 0",
            ),
        ),
        comment="sigma_a and sigma_w are standard deviations here.",
    )


def literal(w: Array, b: Array, a: Array, x: Array, y: Array, eta: float, lam: float) -> tuple[Array, Array]:
    """One line of Algorithm 1 with the hinge loss, written out."""
    z = x @ w.T - b
    active = y * (np.maximum(z, 0) @ a) <= 1
    pull = -(y * active)[:, None] / len(x)
    dw = a[:, None] * ((pull * (z > 0)).T @ x)
    da = (pull * np.maximum(z, 0)).sum(0)
    return w - eta * (dw + lam * w), a - eta * (da + lam * a)


def check_algorithm1(key: Key, tables: Tables) -> Evidence:
    """The engine's joint training against the listing; what the first step leaves."""
    x, y = xor_sample(6, 160, key)
    net = double(symmetric_init(4, 6, key / "net", sigma_w=0.4, sigma_a=1.0, bias=0.5))
    got = joint(net, (x, y), (x, y), eta_1=0.3, eta=0.05, steps=4, batch=160, key=key / "order").net
    w0, b, a0 = net.w[0].numpy(), -net.b[0].numpy(), net.a[0].numpy()

    def run(forget: float) -> tuple[Array, Array]:
        w, a = literal(w0, b, a0, x.numpy(), y.numpy(), 0.3, forget)
        for _ in range(4):
            w, a = literal(w, b, a, x.numpy(), y.numpy(), 0.05, 0.0)
        return w, a

    right, half = run(1 / 0.3), run(1 / 0.6)
    first = forgetful_step(net, x, y, 0.3)
    g = simplified_gradients(net.w[0], -net.b[0], x, y).numpy()
    law = 0.3 * a0[:, None] * g
    return Evidence(
        (
            Case(
                "W after 5 steps",
                predict=right[0],
                observe=got.w[0].numpy(),
                rival=half[0],
                tolerance=1e-12,
                rival_says="lambda_1 = 1/(2 eta_1), as in the emergence work: half of the start stays",
            ),
            Case(
                "a after 5 steps",
                predict=right[1],
                observe=got.a[0].numpy(),
                rival=half[1],
                tolerance=1e-12,
                rival_says="the same",
            ),
            Case(
                "w^(1) = -eta_1 l'(0) a^(0) G(w^(0), b)",
                predict=law,
                observe=first.w[0].numpy(),
                rival=law + 0.5 * w0,
                tolerance=1e-12,
                rival_says="half of w^(0) on top",
            ),
            Case(
                "biases never move",
                predict=-b,
                observe=got.b[0].numpy(),
                rival=-b + 0.01,
                tolerance=0.0,
                rival_says="moved by 0.01",
            ),
        ),
    )


def check_gradients(key: Key, tables: Tables) -> Evidence:
    """Definition 3.5 and Lemma B.70: autograd of the literal loss, the engine, and the formula, on one sample."""
    x, y = xor_sample(6, 200, key)
    net = double(symmetric_init(5, 6, key / "net", sigma_w=0.4, sigma_a=1.0, bias=0.5))
    w, b, a = net.w[0].clone().requires_grad_(), -net.b[0], net.a[0].clone().requires_grad_()
    loss = torch.nn.functional.softplus(-y * (torch.relu(x @ w.T - b) @ a)).mean()
    auto_w, auto_a = (g.numpy() for g in torch.autograd.grad(loss, (w, a)))
    g = simplified_gradients(net.w[0], b, x, y).numpy()
    plus = simplified_gradients(net.w[0], -b, x, y).numpy()
    a0 = net.a[0].numpy()
    moved = TwoLayer(net.w + 0.1, net.b, net.a + 0.2, "relu")
    w1, a1 = moved.w[0].clone().requires_grad_(), moved.a[0].clone().requires_grad_()
    loss1 = torch.nn.functional.softplus(-y * (torch.relu(x @ w1.T - b) @ a1)).mean()
    later = [v.numpy() for v in torch.autograd.grad(loss1, (w1, a1))]
    ours = gradients(moved, x, y, loss="logistic")
    start = gradients(net, x, y, loss="logistic")
    return Evidence(
        (
            Case(
                "at the start dL/dw_i = l'(0) a_i G(w_i, b_i)",
                predict=auto_w,
                observe=-0.5 * a0[:, None] * g,
                rival=-0.5 * a0[:, None] * plus,
                tolerance=1e-12,
                rival_says="threshold -b in place of b",
            ),
            Case(
                "the same from the engine",
                predict=auto_w,
                observe=start.w[0].numpy(),
                rival=-a0[:, None] * g,
                tolerance=1e-12,
                rival_says="l'(0) = -1, the hinge's",
            ),
            Case(
                "dL/da_i at the start",
                predict=auto_a,
                observe=start.a[0].numpy(),
                rival=-auto_a,
                tolerance=1e-12,
                rival_says="the sign",
            ),
            Case(
                "dL/dw elsewhere, engine",
                predict=later[0],
                observe=ours.w[0].numpy(),
                rival=-0.5 * moved.a[0, :, None].numpy() * g,
                tolerance=1e-12,
                rival_says="the formula of the start",
            ),
            Case(
                "dL/da elsewhere, engine",
                predict=later[1],
                observe=ours.a[0].numpy(),
                rival=auto_a,
                tolerance=1e-12,
                rival_says="its value at the start",
            ),
        ),
    )


def check_cone(key: Key, tables: Tables) -> Evidence:
    """Definition 3.7 and Lemma B.72: scale, sign, the zero vector; a gradient feature against a rotated one."""
    rng = key.numpy()
    v, D = torch.as_tensor(rng.normal(size=(4000, 3))), torch.as_tensor(rng.normal(size=(1, 3)))
    cosine = (v @ D[0] / v.norm(dim=1) / D.norm()).abs().numpy()
    inside = in_cone(v, D, 0.2)[:, 0, 0].numpy().astype(float)
    scaled = in_cone(-3.7 * v, D, 0.2)[:, 0, 0].numpy().astype(float)
    mirror = in_cone(v, -D, 0.2)[:, 0, 0].numpy().astype(float)
    signed = ((v @ D[0]) / v.norm(dim=1) / D.norm() > 0.8).numpy().astype(float)
    task = GaussianMixture.xor(d=400)
    truth = task.draw(key / "truth")
    w = torch.randn(4000, 400, generator=(key / "w").torch(), dtype=torch.float64)
    b = torch.full((4000,), 1.4 * 20.0, dtype=torch.float64)
    g = gaussian_gradients(w, b, truth.means, truth.labels, truth.weights, truth.sigma)
    off = truth.features[[2]]
    directions = torch.stack([turned(truth.features[0], t, key / "aside", off) for t in (0.0, 20.0)])
    found = membership(g, directions, torch.tensor([0.01, 0.02, 0.03, 0.05], dtype=torch.float64), 2.0)
    return Evidence(
        (
            Case(
                "in the cone iff |cos| > 1 - gamma",
                predict=(cosine > 0.8).astype(float),
                observe=inside,
                rival=signed,
                tolerance=0.0,
                rival_says="a signed cosine",
            ),
            Case(
                "rho w in the cone iff w is, rho = -3.7",
                predict=inside,
                observe=scaled,
                rival=signed,
                tolerance=0.0,
                rival_says="signed",
            ),
            Case(
                "(-D, s) in S iff (D, s) in S",
                predict=inside,
                observe=mirror,
                rival=signed,
                tolerance=0.0,
                rival_says="signed",
            ),
            Case(
                "0 is in no cone",
                predict=0.0,
                observe=float(in_cone(0 * D, D, 0.9).sum()),
                rival=1.0,
                tolerance=0.0,
                rival_says="it is",
            ),
            Case(
                "XOR mixture, d = 400: 95 % lower bound of Pr[G in cone of D_1], gamma = .01, .02, .03, .05",
                predict=np.full(4, 0.005),
                observe=found.low[0].numpy(),
                rival=np.full(4, 1.0),
                relation="at least",
                rival_says="certain",
            ),
            Case(
                "the same for D_1 turned by 20 degrees: upper bound",
                predict=np.full(4, 0.005),
                observe=found.high[1].numpy(),
                rival=found.low[0].numpy() * 0 + 1e-6,
                relation="at most",
                rival_says="never seen to better than 1e-6",
            ),
        ),
        comment="A cone of gamma holds angles up to arccos(1 - gamma): 8, 11, 14 and 18 degrees here, so a feature and "
        "its rotation by 20 degrees are told apart. Membership of D_1: "
        + ", ".join(f"{v:.3f}" for v in found.share[0])
        + "; of the rotated: "
        + ", ".join(f"{v:.3f}" for v in found.share[1])
        + ".",
        data={"gamma": np.array([0.01, 0.02, 0.03, 0.05]), "share": found.share.numpy()},
    )


def check_one_step(key: Key, tables: Tables) -> Evidence:
    """Algorithm 4: the first layer stays, and the loss never rises at 1/L."""
    x, y = xor_sample(8, 300, key)
    net = double(symmetric_init(10, 8, key / "net", sigma_w=0.4, sigma_a=1.0, bias=0.5))
    start = forgetful_step(net, x, y, 1.0, loss="squared")
    L = smoothness(start, x, "squared")

    def trace(eta: float) -> tuple[TwoLayer, Array]:
        probe = lambda nets, members: 0.5 * (nets(x).T - y).square().mean(1)  # noqa: E731
        run = one_step(net, x, y, eta_1=1.0, eta=eta, steps=40, loss="squared", probes={"l": probe}, probe_at=range(41))
        return run.net, run.trace["l"][:, 0].numpy()

    frozen, loss = trace(1 / L)
    _, far = trace(2.2 / L)
    return Evidence(
        (
            Case(
                "W^(t) = W^(1)",
                predict=np.zeros(start.w[0].shape),
                observe=(frozen.w[0] - start.w[0]).numpy(),
                rival=(net.w[0] - start.w[0]).numpy(),
                tolerance=0.0,
                rival_says="W^(0)",
            ),
            Case(
                "number of steps that raise the loss at 1/L",
                predict=0.0,
                observe=float((np.diff(loss) > 1e-12).sum()),
                rival=float((np.diff(far) > 1e-12).sum()),
                tolerance=0.0,
                rival_says="that number at 2.2/L",
            ),
        ),
    )


def average_gap(f: torch.Tensor, y: torch.Tensor, a1: Array, target: Array, eta: float, steps: int) -> float:
    """Mean over t of the logistic loss of gradient descent from a1, less the loss at `target`."""
    z = (f * y[:, None]).numpy()
    a, total = a1.copy(), 0.0
    for _ in range(steps):
        margin = z @ a
        total += float(np.logaddexp(0, -margin).mean())
        a = a + eta * z.T @ (1 / (1 + np.exp(margin))) / len(z)
    return total / steps - mean_loss(f @ torch.as_tensor(target), y, "logistic")


def check_simple_setting(key: Key, tables: Tables) -> Evidence:
    """Theorem 3.4, optimisation part: average gap <= ||a_1 - a*||^2 / (2 T eta); OPT by a solver with a lower bound."""
    rng, gaps, bounds, opt = key.numpy(), [], [], []
    for i in range(4):
        x, y = xor_sample(8, 150, key / i)
        net = double(symmetric_init(6, 8, key / i / "net", sigma_w=0.4, sigma_a=1.0, bias=0.5))
        one = forgetful_step(net, x, y, 1.0, loss="logistic")
        f = torch.relu(x @ one.w[0].T + one.b[0])
        best = best_network(f, y, 3.0, "logistic")
        L = float(torch.linalg.eigvalsh(f.T @ f / len(f))[-1]) / 4
        a1 = rng.normal(size=f.shape[1]) * 0.3
        gaps.append(average_gap(f, y, a1, best.a.numpy(), 1 / L, 50))
        bounds.append(float(((a1 - best.a.numpy()) ** 2).sum()) * L / 100)
        opt.append((best.loss, best.lower, best_network(f, y, 1.5, "logistic").loss))
    # where the loss is almost a line and T eta |slope| = D the bound is attained
    f, y, D, T = torch.ones(1, 1, dtype=torch.float64), torch.ones(1, dtype=torch.float64), 0.2, 400
    eta = D / (0.475 * T)
    tight = average_gap(f, y, np.zeros(1), np.array([D]), eta, T)
    planted = D**2 / (2 * T * eta)
    return Evidence(
        (
            Case(
                "average gap over 50 steps at 1/L, 4 data sets",
                predict=bounds,
                observe=gaps,
                rival=np.array(bounds) / 50,
                relation="at most",
                rival_says="T^2 in place of T",
            ),
            Case(
                "planted: almost linear loss",
                predict=planted,
                observe=tight,
                rival=planted / 2,
                relation="at most",
                rival_says="half of it, ||a_1 - a*||^2 / (4 T eta)",
            ),
            Case(
                "OPT of Definition 3.3 by the solver, against its own lower bound",
                predict=[v[1] for v in opt],
                observe=[v[0] for v in opt],
                rival=[v[2] for v in opt],
                tolerance=1e-4,
                rival_says="OPT of half the norm",
            ),
        ),
        comment=f"The planted case attains {tight / planted:.2f} of it. The step is 1/L as in the full statement "
        "(Theorem B.2); our copy of Theorem 3.4 reads 1/t. The logistic loss is used, as the hinge has no L.",
    )


def check_online(key: Key, tables: Tables) -> Evidence:
    """Theorem B.7 on random convex sequences and on one that attains it."""
    rng = key.numpy()
    slack = []
    for _ in range(200):
        T, dim, eta = int(rng.integers(5, 40)), 5, float(rng.uniform(0.01, 0.5))
        A, c = rng.normal(size=(T, dim)), rng.normal(size=T)
        theta, star = rng.normal(size=dim), rng.normal(size=dim) * 2
        start = np.linalg.norm(theta)
        value, sizes = 0.0, []
        for t in range(T):  # f_t = |<A_t, theta> - c_t|
            u = A[t] @ theta - c[t]
            grad = np.sign(u) * A[t]
            value += abs(u) / T
            sizes.append(np.linalg.norm(grad))
            theta = theta - eta * grad
        other = np.abs(A @ star - c).mean()
        right = other + star @ star / (2 * eta * T) + start * np.mean(sizes) + eta * np.mean(np.square(sizes))
        slack.append(right - value)
    T, eta = 200, 0.1
    reach = eta * T
    value = float(np.mean([-eta * t for t in range(T)])) + reach  # f = -theta from 0, against theta* = eta T
    right = reach**2 / (2 * eta * T) + eta
    half = reach**2 / (4 * eta * T) + eta
    return Evidence(
        (
            Case(
                "smallest slack over 200 random sequences",
                predict=0.0,
                observe=float(np.min(slack)),
                rival=float(np.max(slack)),
                relation="at least",
                rival_says="the largest slack",
            ),
            Case(
                "planted: linear losses from 0",
                predict=right,
                observe=value,
                rival=half,
                relation="at most",
                rival_says="||theta*||^2 / (4 eta T)",
            ),
        ),
        comment=f"The planted sequence attains {value / right:.3f} of the bound.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gradient_features.assumption3_1",
        entries=("gradient_features.assumption3_1",),
        says="The hinge is a convex decreasing 1-Lipschitz loss with l(0) = 1 and l(infinity) = 0.",
        check=check_loss,
    ),
    Claim(
        "gradient_features.assumption3_1_logistic",
        entries=("gradient_features.assumption3_1",),
        says="The logistic loss qualifies too (Remark 3.2), scaled to log2(1 + 2^-z).",
        check=check_logistic,
    ),
    Claim(
        "gradient_features.method_init",
        entries=("gradient_features.method_init", "gradient_features.lemma_b70"),
        says="The symmetric start is zero everywhere and stays symmetric after one step (B.71).",
        check=check_start,
    ),
    Claim(
        "gradient_features.algorithm1",
        entries=("gradient_features.algorithm1", "gradient_features.algorithm5"),
        says="Algorithm 1, with lambda_1 = 1/eta_1 forgetting the start; Algorithm 5 is the same on very many samples.",
        check=check_algorithm1,
    ),
    Claim(
        "gradient_features.definition3_5",
        entries=("gradient_features.definition3_5", "gradient_features.lemma_b70"),
        says="Gradients in closed form; at the start they are l'(0) a_i G(w_i, b_i).",
        check=check_gradients,
    ),
    Claim(
        "gradient_features.definition3_7",
        entries=("gradient_features.definition3_7",),
        says="Cones are lines and scale-free, 0 lies in none (B.72); features are told from rotated ones.",
        check=check_cone,
    ),
    Claim(
        "gradient_features.algorithm4",
        entries=("gradient_features.algorithm4",),
        says="One joint step, then a alone: W stays, and at 1/L the loss never rises.",
        check=check_one_step,
    ),
    Claim(
        "gradient_features.theorem3_4",
        entries=("gradient_features.theorem3_4", "gradient_features.definition3_3"),
        says="Training a on frozen features comes within ||a_1 - a*||^2 / (2 T eta) of OPT on average.",
        check=check_simple_setting,
    ),
    Claim(
        "gradient_features.theorem_b7",
        entries=("gradient_features.theorem_b7",),
        says="Online gradient descent: average loss within ||theta*||^2/(2 eta T) + ... of any fixed theta*.",
        check=check_online,
    ),
)
