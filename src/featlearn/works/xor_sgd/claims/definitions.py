"""The objects of the work as identities that can fail: data, network, loss, update, decomposition, margins."""

import math

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.pending import Case, Claim, Evidence
from featlearn.learn import Stage, fit_one_pass
from featlearn.measure import cluster_margins, loss_sizes, signal_heavy, signal_parts
from featlearn.nets import TwoLayer, mean_field_rates, neuron_weights, sphere_init
from featlearn.tasks import BooleanXor
from featlearn.tasks.patterns import orthonormal_dictionary
from featlearn.works.xor_sgd.claims.exact import (
    ROOT2,
    Array,
    Net,
    centres,
    cube,
    gradients,
    heavy_net,
    labels,
    random_net,
    slope,
    true_gradients,
)


def tensors(net: Net) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """w (1, p, d), a (1, p) and the means (2, d) for the measures."""
    means = torch.from_numpy(centres(net.w.shape[1])[[0, 2]])
    return torch.from_numpy(net.w)[None], torch.from_numpy(net.a)[None], means


def check_data(key: Key, tables) -> Evidence:
    """Section 2.1 on the whole cube, and on samples in a random basis."""
    x = cube(6)
    z, y, mu = x.copy(), labels(x), centres(6)
    z[:, 2:] = 0
    which = (z[:, None] == mu[None]).all(2)
    task = BooleanXor(d=9, pair=(6, 2), basis="random")
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 400, key / "samples")
    assert truth.basis is not None
    back = (batch.x.double() @ truth.basis.double()).numpy()
    centre = torch.stack([truth.means[0], -truth.means[0], truth.means[1], -truth.means[1]])[batch.group].double()
    outside = (batch.x.double() - centre) @ truth.means.double().T
    product = back[:, 6] * back[:, 2]
    return Evidence(
        (
            Case(
                "||mu||^2",
                predict=np.full(4, 2.0),
                observe=(mu**2).sum(1),
                rival=np.ones(4),
                tolerance=1e-12,
                rival_says="unit means",
            ),
            Case(
                "share of each cluster",
                predict=np.full(4, 0.25),
                observe=which.mean(0),
                rival=np.full(4, 0.5),
                tolerance=0.0,
                rival_says="two clusters",
            ),
            Case(
                "label of +-mu_1 and +-mu_2",
                predict=[1.0, 1.0, -1.0, -1.0],
                observe=labels(mu),
                rival=[-1.0, -1.0, 1.0, 1.0],
                rival_says="y = x_1 x_2",
            ),
            Case("E y", predict=0.0, observe=float(y.mean()), rival=1.0, rival_says="one label"),
            Case("y(-x) = y(x)", predict=y, observe=labels(-x), rival=-y, rival_says="an odd label"),
            Case(
                "samples in a random basis: y = -s_i s_j",
                predict=-product,
                observe=batch.y.double().numpy(),
                rival=product,
                tolerance=1e-5,
                rival_says="the other sign",
            ),
            Case(
                "samples: x - z is orthogonal to both means",
                predict=np.zeros((400, 2)),
                observe=outside.numpy(),
                rival=np.ones((400, 2)),
                tolerance=1e-5,
                rival_says="a component of norm 1/sqrt(2)",
            ),
        ),
        comment="All 64 points of the cube in six dimensions; 400 samples of nine dimensions in a random basis.",
    )


def steps_in_a_basis(key: Key, turn_start: bool) -> tuple[Array, Array]:
    """Weights after three steps in a random basis, turned back, and those in the standard basis."""
    d, p = 7, 5
    task, turned = BooleanXor(d=d), BooleanXor(d=d, basis="random")
    q = orthonormal_dictionary(d, d, key / "basis" / "basis")
    net = sphere_init(p, d, key / "start", theta=1.0)
    other = TwoLayer(net.w @ q.T, net.b, net.a, "relu") if turn_start else net
    rate_w, rate_a = mean_field_rates(0.2, p)
    stage = [Stage(3, rate_w, 0.0, rate_a, batch=20)]
    ends = []
    for one, start, basis in ((task, net, None), (turned, other, q)):
        truth = one.draw(key / "basis")
        if basis is not None:
            assert truth.basis is not None
            torch.testing.assert_close(truth.basis, basis)

        def pairs(n: int, key: Key, one: BooleanXor = one, truth=truth):
            batch = one.sample(truth, n, key)
            return batch.x, batch.y

        end = fit_one_pass(start, pairs, stage, key / "data").net.w[0].double()
        ends.append((end if basis is None else end @ basis.double()).numpy())
    return ends[1], ends[0]


def check_model(key: Key, tables) -> Evidence:
    """Section 2.2 and Remark 2.1."""
    net = sphere_init(30, 8, key / "net", theta=0.3)
    x = torch.from_numpy(cube(8)).float()
    a, w = neuron_weights(net)[0].double().numpy(), net.w[0].double().numpy()
    literal = np.array([sum(a[j] * max(float(w[j] @ v), 0.0) for j in range(30)) / 30 for v in cube(8)[:40]])
    back, straight = steps_in_a_basis(key, True)
    wrong, _ = steps_in_a_basis(key, False)
    return Evidence(
        (
            Case(
                "||w_j|| = theta",
                predict=np.full(30, 0.3),
                observe=np.linalg.norm(w, axis=1),
                rival=np.full(30, 0.3 / math.sqrt(30)),
                tolerance=1e-6,
                rival_says="theta / sqrt(p), as Theorem 3.1 states",
            ),
            Case(
                "|a_j| = ||w_j||",
                predict=np.full(30, 0.3),
                observe=np.abs(a),
                rival=np.ones(30),
                tolerance=1e-6,
                rival_says="|a| = 1",
            ),
            Case(
                "f(x) = (1/p) sum_j a_j relu(w_j.x)",
                predict=literal,
                observe=net(x[:40])[:, 0].double().numpy(),
                rival=30 * literal,
                tolerance=1e-6,
                rival_says="no factor 1/p",
            ),
            Case(
                "three steps in a random basis, turned back",
                predict=straight,
                observe=back,
                rival=wrong,
                tolerance=1e-5,
                rival_says="data turned, start not",
            ),
        ),
        comment="Data and start rotated together commute with every step, so results hold for a cube in any basis.",
    )


def check_loss(key: Key, tables) -> Evidence:
    """The scaled logistic loss."""
    f, h = np.linspace(-6, 6, 49), 1e-5

    def loss(score: Array) -> Array:
        return -2 * np.log(1 / (1 + np.exp(-score)))

    numeric = (loss(f + h) - loss(f - h)) / (2 * h)
    engine = 2 * torch.nn.functional.softplus(-torch.from_numpy(f)).numpy()
    return Evidence(
        (
            Case(
                "l = 2 softplus(-y f)",
                predict=loss(f),
                observe=engine,
                rival=loss(f) / 2,
                tolerance=1e-12,
                rival_says="without the 2",
            ),
            Case(
                "l at f = 0",
                predict=2 * math.log(2),
                observe=float(loss(np.zeros(1))[0]),
                rival=math.log(2),
                tolerance=1e-12,
                rival_says="the usual logistic loss",
            ),
            Case(
                "dl/df, y = 1",
                predict=slope(f, np.ones(49)),
                observe=numeric,
                rival=slope(f, np.ones(49)) / 2,
                tolerance=1e-8,
                rival_says="half of it",
            ),
            Case(
                "dl/df at f = 0 for both labels",
                predict=[-1.0, 1.0],
                observe=slope(np.zeros(2), np.array([1.0, -1.0])),
                rival=[-2.0, 2.0],
                tolerance=0.0,
                rival_says="slope -2 y",
            ),
            Case(
                "|dl/df| <= 2",
                predict=np.full(49, 2.0),
                observe=np.abs(numeric),
                rival=np.ones(49),
                relation="at most",
                tolerance=1e-8,
                rival_says="1, the bound of the unscaled loss",
            ),
        )
    )


def check_update(key: Key, tables) -> Evidence:
    """One step of the engine against the reported update, written out."""
    d, p, eta, m = 7, 6, 0.3, 25
    net = sphere_init(p, d, key / "net", theta=1.0)
    task = BooleanXor(d=d)
    truth = task.draw(key)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def pairs(n: int, key: Key):
        batch = task.sample(truth, n, key)
        seen.append((batch.x, batch.y))
        return batch.x, batch.y

    rate_w, rate_a = mean_field_rates(eta, p)
    got = fit_one_pass(net, pairs, [Stage(1, rate_w, 0.0, rate_a, batch=m)], key / "data").net
    x, y = (t.double().numpy() for t in seen[0])
    w, a = net.w[0].double().numpy(), neuron_weights(net)[0].double().numpy()
    new_w, new_a, late_a = w.copy(), a.copy(), a.copy()
    push = slope(Net(w, a)(x), y)
    for j in range(p):
        new_w[j] -= eta * np.mean([a[j] * push[i] * (w[j] @ x[i] > 0) * x[i] for i in range(m)], axis=0)
        new_a[j] -= eta * np.mean([push[i] * max(w[j] @ x[i], 0) for i in range(m)])
    after = slope(Net(new_w, a)(x), y)
    late_a -= eta * (np.maximum(x @ new_w.T, 0) * after[:, None]).mean(0)
    end_w, end_a = got.w[0].double().numpy(), neuron_weights(got)[0].double().numpy()
    return Evidence(
        (
            Case(
                "w after a step",
                predict=new_w,
                observe=end_w,
                rival=w + (new_w - w) / p,
                tolerance=1e-6,
                rival_says="an extra 1/p",
            ),
            Case(
                "a after a step",
                predict=new_a,
                observe=end_a,
                rival=late_a,
                tolerance=1e-6,
                rival_says="layers in turn instead of both from time t",
            ),
        ),
        comment="d = 7, six neurons, 25 new samples, eta = 0.3.",
    )


def check_decomposition(key: Key, tables) -> Evidence:
    """Table 1: signal, opposite signal, rest."""
    net = random_net(60, 9, key)
    parts = signal_parts(*tensors(net))
    mu1, mu2 = centres(9)[0], centres(9)[2]
    own = np.where((net.a >= 0)[:, None], mu1, mu2)
    other = np.where((net.a >= 0)[:, None], mu2, mu1)
    sig = 0.5 * (net.w * own).sum(1, keepdims=True) * own
    opp = 0.5 * (net.w * other).sum(1, keepdims=True) * other
    squares = (parts.sig**2 + parts.opp**2 + parts.perp.square().sum(-1))[0].numpy()
    return Evidence(
        (
            Case(
                "||w_sig|| with P = mu mu^T / 2",
                predict=np.linalg.norm(sig, axis=1),
                observe=parts.sig[0].abs().numpy(),
                rival=2 * np.linalg.norm(sig, axis=1),
                tolerance=1e-12,
                rival_says="P = mu mu^T",
            ),
            Case(
                "||w_opp||",
                predict=np.linalg.norm(opp, axis=1),
                observe=parts.opp[0].abs().numpy(),
                rival=np.linalg.norm(sig, axis=1),
                tolerance=1e-12,
                rival_says="the two swapped",
            ),
            Case(
                "w_perp = w - w_12",
                predict=net.w - sig - opp,
                observe=parts.perp[0].numpy(),
                rival=net.w - sig,
                tolerance=1e-12,
                rival_says="opp left in",
            ),
            Case(
                "||w||^2 is the sum of squares",
                predict=net.norm**2,
                observe=squares,
                rival=squares - parts.opp[0].numpy() ** 2,
                tolerance=1e-12,
                rival_says="without opp",
            ),
        )
    )


def check_margins(key: Key, tables) -> Evidence:
    """gamma and g at the four centres."""
    net = random_net(40, 7, key)
    w, a, means = tensors(net)
    mu, y = centres(7), np.array([1.0, 1.0, -1.0, -1.0])
    gamma = cluster_margins(w, a, means, scale=1 / 40)[0].numpy()
    literal = np.array([y[c] * np.mean([net.a[j] * max(net.w[j] @ mu[c], 0) for j in range(40)]) for c in range(4)])
    g = loss_sizes(torch.from_numpy(gamma)).numpy()
    size = np.abs(slope(net(mu), y))
    heavy = heavy_net(8, 7, key / "heavy")
    found = signal_heavy(*tensors(heavy), zeta=0.1, H=0.0)
    reported = (
        np.array(
            [
                np.mean([heavy.a[j] * max(heavy.w[j] @ m, 0) for j in range(8) if heavy.a[j] * v > 0])
                for m, v in zip(mu, y, strict=True)
            ]
        )
        * 0.5
    )
    return Evidence(
        (
            Case(
                "gamma_mu = y(mu) f(mu)",
                predict=literal,
                observe=gamma,
                rival=literal * y,
                tolerance=1e-12,
                rival_says="f(mu) alone",
            ),
            Case(
                "g_mu = |l'(mu)|",
                predict=size,
                observe=g,
                rival=size / 2,
                tolerance=1e-12,
                rival_says="without the factor 2",
            ),
            Case(
                "g at margin 0",
                predict=1.0,
                observe=float(loss_sizes(torch.zeros(1))),
                rival=0.5,
                rival_says="without the factor 2",
            ),
            Case(
                "g_min belongs to gamma_max and g_max to gamma_min",
                predict=[size.min(), size.max()],
                observe=loss_sizes(torch.tensor([gamma.max(), gamma.min()])).numpy(),
                rival=[size.max(), size.min()],
                tolerance=1e-12,
                rival_says="the other way round",
            ),
            Case(
                "heavy margins are positive on all four clusters",
                predict=reported * y,
                observe=found.heavy_margins[0].numpy(),
                rival=reported,
                tolerance=1e-12,
                rival_says="a relu(w.mu) without y(mu), negative on +-mu_2",
            ),
        )
    )


def check_signal_heavy(key: Key, tables) -> Evidence:
    """Definition 4.2: a planted network meets it, and each clause can fail."""
    H = 1.0
    zeta = math.exp(-10 * H)
    base = {"size": 0.9, "opp": 0.3 * zeta, "perp": 0.5 * zeta * math.exp(-6 * H)}
    changes = {
        "opp above zeta": {"opp": 1.5 * zeta},
        "perp above zeta exp(-6 H)": {"perp": 1.5 * zeta * math.exp(-6 * H)},
        "|a| > ||w||": {"balance": 1.01},
        "E||w||^2 > E a^2 + zeta H": {"balance": 0.99},
        "E a^2 + zeta H > 2 H": {"size": 1.6},
    }

    def holds(**change: float) -> float:
        net = heavy_net(8, 6, key, **{**base, **change})
        return float(signal_heavy(*tensors(net), zeta=zeta, H=H).holds)

    found = [holds(**change) for change in changes.values()]
    return Evidence(
        (
            Case(
                "a planted network is (zeta, H)-heavy",
                predict=1.0,
                observe=holds(),
                rival=0.0,
                rival_says="no network is",
            ),
            Case(
                "one clause broken: " + ", ".join(changes),
                predict=np.zeros(len(changes)),
                observe=found,
                rival=np.ones(len(changes)),
                rival_says="clauses that nothing breaks",
            ),
            Case(
                "zeta > exp(-10 H)",
                predict=0.0,
                observe=float(signal_heavy(*tensors(heavy_net(8, 6, key, **base)), zeta=2 * zeta, H=H).holds),
                rival=1.0,
                rival_says="no limit on zeta",
            ),
        ),
        comment="H = 1, zeta = exp(-10), eight neurons on the four clusters.",
    )


def check_symmetry_of_gradients(key: Key, tables) -> Evidence:
    """w . grad_w = a grad_a, used by the engine to read the second gradient off the first."""
    net, x = random_net(50, 9, key), cube(9)
    gw, ga = true_gradients(net, x)
    zero_w, zero_a = gradients(net, x, -labels(x))
    left = np.concatenate([(net.w * gw).sum(1), (net.w * zero_w).sum(1)])
    right = np.concatenate([net.a * ga, net.a * zero_a])
    return Evidence(
        (
            Case(
                "w . grad_w = a grad_a",
                predict=right,
                observe=left,
                rival=2 * right,
                tolerance=1e-12,
                rival_says="Euler's identity of degree 2",
            ),
            Case(
                "the same after a factor sqrt(2) of scale",
                predict=ROOT2**2 * right,
                observe=ROOT2**2 * left,
                rival=right,
                tolerance=1e-12,
                rival_says="no scaling",
            ),
        )
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "xor_sgd.data",
        entries=("xor_sgd.data",),
        says="XOR of two coordinates of the cube is four clusters z + xi of equal weight, ||mu||^2 = 2, y(z) = y(-z), "
        "E y = 0.",
        check=check_data,
    ),
    Claim(
        "xor_sgd.model",
        entries=("xor_sgd.model",),
        says="f(x) = (1/p) sum a relu(w.x), ||w|| = theta, |a| = ||w||; rotating data and start commutes with a step.",
        check=check_model,
        reported="Theorem 3.1 has the 'initialization scale' theta/sqrt(p), its restatement Theorem E.1 "
        "and Section 2.2 theta; the code follows the latter.",
    ),
    Claim(
        "xor_sgd.loss",
        entries=("xor_sgd.loss",),
        says="l = 2 softplus(-y f), slope -y at f = 0, 2-Lipschitz.",
        check=check_loss,
    ),
    Claim(
        "xor_sgd.minibatch_sgd",
        entries=("xor_sgd.minibatch_sgd",),
        says="w -= eta mean[a l' 1(w.x > 0) x] and a -= eta mean[l' relu(w.x)] at once, gradients times p.",
        check=check_update,
    ),
    Claim(
        "xor_sgd.decomposition",
        entries=("xor_sgd.decomposition",),
        says="w = w_sig + w_opp + w_perp, orthogonal, with the sign of a deciding which mean is the neuron's own.",
        check=check_decomposition,
    ),
    Claim(
        "xor_sgd.margins",
        entries=("xor_sgd.margins",),
        says="gamma_mu = y(mu) f(mu), g_mu = 2 exp(-gamma)/(1 + exp(-gamma)).",
        check=check_margins,
        reported="In our copy, whose formulas are damaged, Appendix D reads g without the factor 2 and the heavy "
        "margin as a relu(w.mu); g follows here from the loss of Section 2.2, and the heavy margin has y(mu), "
        "without which it would be negative on +-mu_2.",
    ),
    Claim(
        "xor_sgd.signal_heavy",
        entries=("xor_sgd.signal_heavy",),
        says="Definition 4.2 of a (zeta, H)-signal-heavy network: a planted one meets it, each clause can fail.",
        check=check_signal_heavy,
    ),
    Claim(
        "xor_sgd.homogeneity",
        entries=("xor_sgd.homogeneity_B13",),
        says="w . grad_w = a grad_a for every neuron.",
        check=check_symmetry_of_gradients,
    ),
)
