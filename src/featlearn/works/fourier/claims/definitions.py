"""The objects of the work as identities that can fail: task, network, loss with its least value, margins, saddle."""

import math

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.inventory import entry
from featlearn.lab.pending import Assumption, Case, Claim, Evidence, Tables
from featlearn.measure import class_weighted_margins, margins
from featlearn.tasks.modular_addition import labels, points
from featlearn.works.fourier.claims.exact import (
    chosen,
    loss,
    random_cosines,
    random_network,
    scaled,
    survey,
    unit,
    without,
)
from featlearn.works.fourier.setup import (
    Network,
    class_weighted_margin,
    constructed,
    cosine_network,
    cyclic,
    gamma_star,
    logits,
    minimum,
    network_norm,
    neuron_margins,
    neuron_norms,
)


def everything(p: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All points (p^k, k) and their labels."""
    x = points(torch.arange(p**k), p, k)
    return x, labels(x, p)


def found(p: int, wave: np.ndarray) -> float:
    """Share of (zeta, sum) whose class is the only maximum of wave(zeta (sum - c)), wave (p) given on 0..p-1."""
    zeta, s, c = np.ogrid[1:p, 0:p, 0:p]
    value = wave[zeta * (s - c) % p]
    best = np.sort(value, axis=2)
    right = (value.argmax(2) == np.arange(p)) & (best[..., -1] - best[..., -2] > 1e-9)
    return float(right.mean())


def check_rotation(key: Key, tables: Tables) -> Evidence:
    """Section 4.1: the angle says the class."""
    primes = (3, 5, 7, 11, 97)
    cases = []
    for name, ps in (("p prime", primes), ("p = 9 and 15, frequencies without a common factor", (9, 15))):
        shares, others = [], []
        for p in ps:
            angle = 2 * np.pi * np.arange(p) / p
            units = np.mean([math.gcd(z, p) == 1 for z in range(1, p)])
            shares.append(found(p, np.cos(angle)) / units)
            others.append(found(p, np.sin(angle)) / units)
        cases.append(
            Case(
                f"share of (zeta, sum) read off rightly, {name}",
                predict=np.ones(len(ps)),
                observe=shares,
                rival=others,
                tolerance=0.0,
                rival_says="sine in place of cosine",
            )
        )
    nine = found(9, np.cos(2 * np.pi * np.arange(9) / 9))
    cases.append(
        Case(
            "the same over all frequencies for p = 9",
            predict=6 / 8,
            observe=nine,
            rival=1.0,
            tolerance=1e-12,
            rival_says="as if 9 were prime: 3 and 6 tell only three classes",
        )
    )
    return Evidence(tuple(cases), comment=f"Every frequency and sum for p = {', '.join(map(str, primes))}.")


def check_task(key: Key, tables: Tables) -> Evidence:
    """Eq. (4.1): sizes and labels."""
    sizes = entry("fourier.eq4_1").derived["dataset_sizes"]
    shapes = [tuple(int(part[1:]) for part in name.split("_")) for name in sizes]
    counts, expected, literal, ours = [], [], [], []
    for k, p in ((2, 7), (3, 5), (4, 5)):
        x, y = everything(p, k)
        counts += y.bincount(minlength=p).tolist()
        expected += [p ** (k - 1)] * p
        literal += [sum(a) % p for a in x.tolist()]
        ours += y.tolist()
    return Evidence(
        (
            Case(
                "points p^k of the data sets used",
                predict=[sizes[n] for n in sizes],
                observe=[p**k for k, p in shapes],
                rival=[k**p for k, p in shapes],
                rival_says="k^p",
            ),
            Case(
                "points of each class: p^(k-1)",
                predict=expected,
                observe=counts,
                rival=np.array(expected) * 2.0,
                rival_says="half the classes",
            ),
            Case(
                "label (a_1 + ... + a_k) mod p",
                predict=literal,
                observe=ours,
                rival=np.roll(literal, 1),
                rival_says="labels of other points",
            ),
        ),
    )


def check_network(key: Key, tables: Tables) -> Evidence:
    """Eq. (4.2): network, look-ups for one-hot products, homogeneity, norms."""
    m, k, p, c = 5, 3, 7, 1.7
    net = random_network(m, k, p, key)
    x, _ = everything(p, k)
    hot = torch.nn.functional.one_hot(x, p).double()
    literal = torch.zeros(len(x), p, dtype=torch.float64)
    for i in range(m):
        inside = torch.stack([hot[:, j] @ net[0][i, j] for j in range(k)]).sum(0)
        literal += (inside**k)[:, None] * net[1][i]
    f = logits(*net, x)
    norms = [math.sqrt(sum(float(v) ** 2 for v in (*net[0][i].flatten(), *net[1][i]))) for i in range(m)]
    some = scaled(net, torch.tensor([c, 1, 1, 1, 1], dtype=torch.float64))
    first = chosen(net, slice(1))
    return Evidence(
        (
            Case(
                "f by look-ups = f by one-hot products",
                predict=literal.numpy(),
                observe=f.numpy(),
                rival=logits(*net, (x + 1) % p).numpy(),
                tolerance=1e-12,
                rival_says="rows of other numbers",
            ),
            Case(
                "f(c theta) = c^(k+1) f(theta)",
                predict=(c ** (k + 1) * f).numpy(),
                observe=logits(*scaled(net, c), x).numpy(),
                rival=(c**k * f).numpy(),
                tolerance=1e-12,
                rival_says="degree k",
            ),
            Case(
                "one neuron scaled alone",
                predict=((c ** (k + 1) - 1) * logits(*first, x)).numpy(),
                observe=(logits(*some, x) - f).numpy(),
                rival=((c**k - 1) * logits(*first, x)).numpy(),
                tolerance=1e-12,
                rival_says="degree k",
            ),
            Case(
                "n_i",
                predict=norms,
                observe=neuron_norms(*net).numpy(),
                rival=net[0].flatten(1).norm(dim=1).numpy(),
                tolerance=1e-12,
                rival_says="without w",
            ),
            Case(
                "|theta|_{2, k+1}",
                predict=sum(n ** (k + 1) for n in norms) ** (1 / (k + 1)),
                observe=network_norm(*net),
                rival=math.sqrt(sum(n**2 for n in norms)),
                tolerance=1e-12,
                rival_says="the Euclidean norm",
            ),
        ),
        comment="R^((k+1) x p) is one neuron; the network has m of them.",
    )


def best_scaled(net: Network, lam: float) -> float:
    """The least loss along the ray of a network of norm 1, on a grid refined once."""
    k, p = net[0].shape[1:]
    x, y = everything(p, k)
    f = logits(*net, x)
    right = f.gather(1, y[:, None])

    def at(c: float) -> float:
        return float(torch.logsumexp((f - right) * c ** (k + 1), 1).mean()) + lam * c

    grid = np.geomspace(1e-2, math.log(p) / lam, 120)
    values = [at(c) for c in grid]
    best = int(np.argmin(values))
    fine = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, 119)], 60)
    return min(math.log(p), *values, *(at(c) for c in fine))


def check_objective(key: Key, tables: Tables) -> Evidence:
    """Definition 4.1: the objective, its least value in closed form, the gradient of the penalty."""
    oracle = entry("fourier.definition4_1").verified_by_hand["oracle_values"]
    shapes = [(int(n.split("_")[0][1:]), int(n.split("_")[1][1:]), float(n.split("lam")[1])) for n in oracle]
    ours = np.array([minimum(*s) for s in shapes])
    theirs = np.array([[v["c"], v["Lmin"]] for v in oracle.values()])
    direct, least, off = [], [], []
    for k, p, lam in ((2, 7, 0.005), (2, 23, 0.005), (3, 5, 0.01), (3, 7, 0.005)):
        c, value = minimum(k, p, lam)
        least.append(value)
        direct.append(loss(scaled(constructed(k, p), c), lam))
        off.append(loss(scaled(constructed(k, p), 1.05 * c), lam))
    k, p, lam = 2, 7, 0.005
    best, bound = constructed(k, p), minimum(k, p, lam)[1]
    noise = random_network(len(best[0]), k, p, key / "noise")
    tried = [unit((best[0] + s * noise[0], best[1] + s * noise[1])) for s in (0.0, 0.1, 0.3, 1.0, 3.0)]
    tried += [random_cosines(24, k, p, key / "cosines" / i) for i in range(5)]
    tried += [random_network(24, k, p, key / "random" / i) for i in range(5)]
    reached = np.array([best_scaled(net, lam) for net in tried])
    u, w = (t.clone().requires_grad_() for t in random_network(4, 3, 5, key / "penalty"))
    norm = torch.linalg.vector_norm((u.square().sum((1, 2)) + w.square().sum(1)).sqrt(), 4)
    slope = torch.autograd.grad(2.0 * norm, u)[0]
    n = neuron_norms(u.detach(), w.detach())[:, None, None]
    formula = 2.0 * float(norm.detach()) ** -3 * n**2 * u.detach()
    return Evidence(
        (
            Case(
                "c* of the hand-checked settings",
                predict=theirs[:, 0],
                observe=ours[:, 0],
                rival=theirs[:, 0] * 1.001,
                tolerance=6e-4,
                rival_says="0.1 % more",
            ),
            Case(
                "L of the hand-checked settings",
                predict=theirs[:, 1],
                observe=ours[:, 1],
                rival=theirs[:, 1] * 1.001,
                tolerance=6e-8,
                rival_says="0.1 % more",
            ),
            Case(
                "loss of the constructed network scaled to c*, over all points",
                predict=least,
                observe=direct,
                rival=off,
                tolerance=1e-10,
                rival_says="scaled 5 % further",
            ),
            Case(
                "least loss along the rays of 15 networks, k = 2, p = 7",
                predict=np.full(15, bound),
                observe=reached,
                rival=np.full(15, 1.001 * bound),
                relation="at least",
                tolerance=1e-9,
                rival_says="a minimum 0.1 % higher",
            ),
            Case(
                "gradient of lam |theta|: lam |theta|^-k n_i^(k-1) theta_i",
                predict=formula.numpy(),
                observe=slope.numpy(),
                rival=(formula / n).numpy(),
                tolerance=1e-12,
                rival_says="n_i^(k-2)",
            ),
        ),
        comment="L = min_c log(1 + (p - 1) exp(-gamma* c^(k+1))) + lam c bounds every network from below (Jensen over "
        "wrong classes, then over points, then the class-weighted margin) and is attained: training has an oracle.",
        data={"lowest": np.sort(reached), "bound": np.full(15, bound)},
    )


def check_margin(key: Key, tables: Tables) -> Evidence:
    """Definitions 4.2 and 4.3."""
    g = key.numpy()
    f, y = g.standard_normal((50, 6)), g.integers(0, 6, 50)
    literal = [f[i, y[i]] - max(f[i, c] for c in range(6) if c != y[i]) for i in range(50)]
    careless = [f[i, y[i]] - max(f[i]) for i in range(50)]
    k, p, c = 3, 5, 1.3
    net = random_network(9, k, p, key / "net")
    x, labels = everything(p, k)
    each = margins(logits(*net, x), labels)
    h, bigger = survey(net).least, survey(scaled(net, c)).least
    return Evidence(
        (
            Case(
                "f[y] - max of the wrong logits",
                predict=literal,
                observe=margins(torch.from_numpy(f), torch.from_numpy(y)).numpy(),
                rival=careless,
                tolerance=1e-14,
                rival_says="the maximum over all classes",
            ),
            Case(
                "h = smallest margin of all p^k points",
                predict=float(each.min()),
                observe=h,
                rival=float(each.mean()),
                tolerance=1e-14,
                rival_says="the mean",
            ),
            Case(
                "h(c theta) = c^(k+1) h(theta)",
                predict=c ** (k + 1) * h,
                observe=bigger,
                rival=c**k * h,
                tolerance=1e-12,
                rival_says="degree k",
            ),
        )
    )


def check_normalised(key: Key, tables: Tables) -> Evidence:
    """Definition 4.4: the margin of a network is its least expected margin over laws of the data."""
    g, k, p = key.numpy(), 2, 5
    x, y = everything(p, k)
    low, vertex, others = [], [], []
    for i in range(6):
        net = random_network(8, k, p, key / i) if i < 5 else without(constructed(k, p), 0)
        each = margins(logits(*net, x), y).numpy()
        low.append(each.min())
        vertex.append(
            each[np.argmin(each)] @ np.ones(1) if each.ndim == 0 else float(np.eye(len(each))[each.argmin()] @ each)
        )
        others.append(min(float(q @ each) for q in g.dirichlet(np.full(len(each), 0.3), 200)))
    net = scaled(random_network(8, k, p, key / "big"), 3.0)
    c = network_norm(*net)
    return Evidence(
        (
            Case(
                "E_q g at the law on the worst point = h",
                predict=low,
                observe=vertex,
                rival=np.array(low) * 0.95,
                tolerance=1e-14,
                rival_says="5 % off",
            ),
            Case(
                "least E_q g over 200 random laws",
                predict=low,
                observe=others,
                rival=np.array(low) + 0.2,
                relation="at least",
                tolerance=1e-14,
                rival_says="0.2 more than h",
            ),
            Case(
                "h(theta / |theta|) = h(theta) / |theta|^(k+1)",
                predict=survey(net).least / c ** (k + 1),
                observe=survey(unit(net)).least,
                rival=survey(net).least / c**k,
                tolerance=1e-12,
                rival_says="|theta|^k",
            ),
            Case(
                "margin of the best network of norm 1, k = 2, p = 5",
                predict=gamma_star(k, p),
                observe=survey(constructed(k, p)).least,
                rival=survey(without(constructed(k, p), 0)).least,
                tolerance=1e-14,
                rival_says="one neuron fewer",
            ),
        )
    )


def check_saddle(key: Key, tables: Tables) -> Evidence:
    """Definition 4.5: uniform data and the constructed network are a saddle."""
    cases = []
    for k, p in ((2, 7), (3, 5)):
        best, top = constructed(k, p), gamma_star(k, p)
        x, y = everything(p, k)
        each = margins(logits(*best, x), y).numpy()
        nets = [random_network(12, k, p, key / k / i) for i in range(8)]
        nets += [random_cosines(12, k, p, key / k / "c" / i, off) for i, off in enumerate((0.0, 0.0, 0.5, 1.5))]
        nets += [
            unit((best[0] + 0.2 * n[0], best[1] + 0.2 * n[1]))
            for n in (random_network(len(best[0]), k, p, key / k / "n" / i) for i in range(4))
        ]
        value = np.array([float(margins(logits(*net, x), y).mean()) for net in [*nets, best]])
        worse = margins(logits(*without(best, 0), x), y).numpy()
        cases += [
            Case(
                f"margins under theta* are equal, so uniform q is worst: k = {k}, p = {p}",
                predict=np.full_like(each, top),
                observe=each,
                rival=worse,
                tolerance=1e-14,
                rival_says="one neuron fewer",
            ),
            Case(
                f"E_q g(theta) <= E_q g(theta*) for unit theta: k = {k}, p = {p}",
                predict=np.full_like(value, top),
                observe=value,
                rival=np.full_like(value, 0.99 * top),
                relation="at most",
                tolerance=1e-14,
                rival_says="1 % less",
            ),
        ]
    return Evidence(
        tuple(cases),
        comment="16 other networks of norm 1 each: random, cosines with right and wrong phases, theta* with noise.",
    )


def check_class_weighted(key: Key, tables: Tables) -> Evidence:
    """Definition 4.6: upper bound of the margin, additive over neurons."""
    k, p, m = 3, 5, 9
    x, y = everything(p, k)
    net = random_network(m, k, p, key)
    wrong = torch.nn.functional.one_hot(y, p) == 0

    def weighted(u: torch.Tensor, w: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        f = logits(u, w, x)
        return f.gather(1, y[:, None])[:, 0] - (tau * f).sum(1)

    uniform = wrong.double() / (p - 1)
    draws = torch.from_numpy(key.numpy().dirichlet(np.full(p, 0.5), len(x))) * wrong
    other = draws / draws.sum(1, keepdim=True)
    g = margins(logits(*net, x), y).numpy()
    parts = [float(weighted(net[0][i : i + 1], net[1][i : i + 1], uniform).mean()) for i in range(m)]
    whole = float(weighted(*net, uniform).mean())
    right = [float(logits(net[0][i : i + 1], net[1][i : i + 1], x).gather(1, y[:, None]).mean()) for i in range(m)]
    cases = [
        Case(
            f"g <= g' at every point, {name} weights",
            predict=weighted(*net, tau).numpy(),
            observe=g,
            rival=weighted(*net, tau).numpy() - float((weighted(*net, tau) - torch.from_numpy(g)).max()) * 0.9,
            relation="at most",
            tolerance=1e-14,
            rival_says="g' less 0.9 of the largest gap",
        )
        for name, tau in (("uniform", uniform), ("random", other))
    ]
    return Evidence(
        (
            *cases,
            Case(
                "g' with uniform weights, as the measure gives it",
                predict=weighted(*net, uniform).numpy(),
                observe=class_weighted_margins(logits(*net, x), y).numpy(),
                rival=g,
                tolerance=1e-14,
                rival_says="g",
            ),
            Case(
                "E g' = sum over neurons",
                predict=sum(parts),
                observe=whole,
                rival=sum(right),
                tolerance=1e-14,
                rival_says="right class alone",
            ),
            Case(
                "E g' of each neuron by spectra (Lemma C.14)",
                predict=parts,
                observe=neuron_margins(*net).numpy(),
                rival=right,
                tolerance=1e-14,
                rival_says="right class alone",
            ),
            Case(
                "E g' of the network by spectra",
                predict=whole,
                observe=class_weighted_margin(*net),
                rival=float(g.mean()),
                tolerance=1e-14,
                rival_says="E g",
            ),
        ),
        comment="psi' in Lemmas C.5 and C.6, defined nowhere, is this quantity of one neuron.",
    )


def check_condition(key: Key, tables: Tables) -> Evidence:
    """Condition 4.8: all wrong logits of a point are equal, for the constructed networks."""
    cases = []
    shapes = ((2, 5), (2, 7), (2, 13), (3, 3), (3, 5), (3, 7), (4, 5), (4, 7), (5, 5))
    for name, make in (("constructed", constructed), ("cyclic", cyclic)):
        spread = [survey(make(k, p)).spread / gamma_star(k, p) for k, p in shapes]
        loose = [survey(random_cosines(2 * p, k, p, key / name / k / p)).spread / gamma_star(k, p) for k, p in shapes]
        cases.append(
            Case(
                f"largest difference of two wrong logits over gamma*, {name} networks",
                predict=np.zeros(len(shapes)),
                observe=spread,
                rival=loose,
                tolerance=1e-12,
                rival_says="optimal neurons with random phases and shares",
            )
        )
    return Evidence(tuple(cases), comment="(k, p) = " + ", ".join(map(str, shapes)) + ", over all points.")


def check_regularised(key: Key, tables: Tables) -> Evidence:
    """Lemma 4.7, by the oracle: at every lambda with a minimum above 0, minimisers have the margin gamma*."""
    k, p = 2, 7
    best = constructed(k, p)
    noise = random_network(len(best[0]), k, p, key)
    steps = (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
    ray = [unit((best[0] + s * noise[0], best[1] + s * noise[1])) for s in steps]
    ratios = np.array([survey(net).least / gamma_star(k, p) for net in ray])
    lams = (0.1, 0.03, 0.01, 1e-3, 1e-5, 1e-7)
    excess = np.array([[best_scaled(net, lam) / minimum(k, p, lam)[1] - 1 for net in ray] for lam in lams])
    large = 1.1 * math.log(p) / minimum(k, p, 0.1)[0]
    return Evidence(
        (
            Case(
                "least loss of the max-margin ray over L, for each lambda",
                predict=np.zeros(len(lams)),
                observe=excess[:, 0],
                rival=excess[:, 3],
                tolerance=1e-4,
                rival_says="theta* with a tenth of noise",
            ),
            Case(
                "loss grows with every step away from the best margin",
                predict=np.zeros((len(lams), 5)),
                observe=np.diff(excess, axis=1),
                rival=np.full((len(lams), 5), np.diff(excess, axis=1).max()),
                relation="at least",
                tolerance=1e-6,
                rival_says="by the largest step seen",
            ),
            Case(
                "c* where lambda is too large",
                predict=0.0,
                observe=minimum(k, p, large)[0],
                rival=minimum(k, p, 0.1)[0],
                rival_says="the norm at lambda = 0.1",
            ),
        ),
        (Assumption("a global minimiser", True, "known here in closed form"),),
        "The lemma is about the limit; with all p^k points and an exact penalty the margin is gamma* at every lambda "
        "below the one where the minimum jumps to 0. Normalised margins along the ray over gamma*: "
        + ", ".join(f"{r:.2f}" for r in ratios)
        + f"; loss at lambda = {lams[-1]:g} over its least value, less 1: "
        + ", ".join(f"{e:.2g}" for e in excess[-1])
        + ".",
    )


def check_parity(key: Key, tables: Tables) -> Evidence:
    """Section 4.6: p = 2 is parity; its one frequency is real and beats the theorem's cosines."""
    ks = (2, 3, 4, 5)
    ours, product = [], []
    for k in ks:
        x, y = everything(2, k)
        ours += (1 - 2 * y).tolist()
        product += (1 - 2 * x).prod(1).tolist()
    gain, expected = [], []
    for k in ks:
        for p in (6, 10):
            half = cosine_network(torch.zeros(1, k, dtype=torch.float64), torch.tensor([p // 2]), p)
            pair = cosine_network(torch.zeros(1, k, dtype=torch.float64), torch.tensor([1]), p)
            gain.append(class_weighted_margin(*unit(half)) / class_weighted_margin(*unit(pair)))
            expected.append(2 ** ((k - 1) / 2))
    return Evidence(
        (
            Case(
                "(-1)^(sum mod 2) = product of signs",
                predict=product,
                observe=ours,
                rival=-np.array(product),
                rival_says="the other sign",
            ),
            Case(
                "even p: margin of a neuron at p/2 over one at a cosine",
                predict=expected,
                observe=gain,
                rival=np.ones(len(gain)),
                tolerance=1e-12,
                rival_says="no gain: the theorem for odd p",
            ),
        ),
        comment="Why the theorem stops at odd p: at p/2 sine and cosine collapse into one vector, which needs half the "
        "norm; neurons at p/2 alone tell only parities apart, so no network attains that bound.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "fourier.rotation",
        entries=("fourier.method_rotation_argmax",),
        says="(a_1 + ... + a_k) mod p is the one class c with the largest cos(2 pi zeta (sum - c) / p), for every zeta "
        "without a factor in common with p.",
        check=check_rotation,
    ),
    Claim("fourier.task", entries=("fourier.eq4_1",), says="p^k points, p^(k-1) of each class.", check=check_task),
    Claim(
        "fourier.network",
        entries=("fourier.eq4_2",),
        says="f(a) = sum_i (sum_j u_ij(a_j))^k w_i is homogeneous of degree k + 1 in theta and in every neuron.",
        check=check_network,
        reported="Section 4.3.1 writes 'theta := {theta_1, ..., theta_m} ∈ R^((k+1) x p)': the size of "
        "each theta_i, read here as such.",
    ),
    Claim(
        "fourier.objective",
        entries=("fourier.definition4_1",),
        says="mean CE + lam |theta|_{2, k+1} has the global minimum min_c log(1 + (p-1) exp(-gamma* c^(k+1))) + lam c, "
        "attained by the constructed network.",
        check=check_objective,
    ),
    Claim(
        "fourier.margin",
        entries=("fourier.definition4_2", "fourier.definition4_3"),
        says="g = f[y] - max wrong logit; h = min g over all points; h is homogeneous of degree k + 1.",
        check=check_margin,
    ),
    Claim(
        "fourier.normalised_margin",
        entries=("fourier.definition4_4",),
        says="h(theta) = min over laws q of E_q g; normalised margin h / |theta|^(k+1).",
        check=check_normalised,
    ),
    Claim(
        "fourier.saddle",
        entries=("fourier.definition4_5",),
        says="Uniform q over all points and theta* are a saddle of E_q g(theta): theta* maximises over unit theta.",
        check=check_saddle,
        hits="statement",
        reported="Definition 4.5, Eq. (4.4): 'theta* ∈ arg min_{theta ∈ Theta} E_{(x,y) ~ q*}[g(theta, x, y)]', and "
        "the same in Eq. (C.1); a misprint for arg max, since the next sentence has theta* as 'a solution that "
        "maximizes the expected margin'. The proofs of Lemmas C.17 and C.18 write 'q = unif(Z_p)' for the uniform "
        "law of the points, on Z_p^k.",
    ),
    Claim(
        "fourier.class_weighted",
        entries=("fourier.definition4_6",),
        says="g' >= g at every point; E g' is a sum over neurons.",
        check=check_class_weighted,
        reported="psi' in Lemmas C.5 and C.6 is not defined there; read as g' of a single neuron.",
    ),
    Claim(
        "fourier.regularised",
        entries=("fourier.lemma4_7",),
        says="The normalised margin of minimisers tends to gamma* as lambda -> 0; here it is gamma* "
        "at every lambda with "
        "a minimum above 0.",
        check=check_regularised,
    ),
    Claim(
        "fourier.condition",
        entries=("fourier.condition4_8",),
        says="All p - 1 wrong logits of a max-margin network are equal at every point.",
        check=check_condition,
    ),
    Claim(
        "fourier.parity",
        entries=("fourier.method_parity_limit",),
        says="p = 2 is the parity of k bits.",
        check=check_parity,
    ),
)
