"""Audit of the reported numbers of Tables 6.1-6.3 and E.1-E.6 and of Figure 6.4: averages, orders, shared rows, prose.

Accuracies on photographs are not judged here: they need the images, and each entry says by which command.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import COUNT, PERCENT, POINTS, REAL
from featlearn.lab.statement import Statement, at_least, at_most, both, equal
from featlearn.lab.uncertainty import Observation
from featlearn.works._audit import Rows, audited, averages, averages_fit, less, means, place, said, without
from featlearn.works._audit import table as table_of

BASES = ("ERM", "Mixup", "SWAD")
SETS = ("VLCS", "PACS", "OfficeHome", "TerraIncognita", "DomainNet")
"""Data sets in the order of Table 6.1, by their names in Table 6.2."""
COLUMNS = ("vlcs", "pacs", "officehome", "terrainc", "domainnet")
FULL = tuple(f"tableE_{i}" for i in range(1, 6))
"""Tables of single domains, in the order of SETS."""
SHARED = ("vlcs", "pacs", "domainnet")
"""Columns of Table 6.3."""
DIGIT = 0.1
"""One unit of the last digit."""
ROUNDING = DIGIT / 2 + 1e-9
EXACT = 1e-9
EVERY = tuple(f"nuclear.{name}" for name in ("table6_1", "table6_2", "table6_3", *FULL, "tableE_6"))
TABLES = (("table6_1", ""), *(("table6_2", s) for s in SETS), ("table6_3", ""), *((n, "") for n in (*FULL, "tableE_6")))
SWAPPED = ("Fishr", "mDSDI")


def table(name: str, setting: str = "", spread: bool = False) -> Rows:
    """A table of this work: row -> metric -> reported value (or its deviation), averages included."""
    return table_of(f"nuclear.{name}", setting, spread)


def off(values: np.ndarray, by: float = DIGIT) -> np.ndarray:
    """The same numbers, the first of them off by `by`: the nearest table that is not the same."""
    return values + by * (np.arange(values.size) == 0).reshape(values.shape)


# --- averages --------------------------------------------------------------------------------------------------------


def averages_said(settings: None) -> tuple[Statement, ...]:
    """Averages as reported, of all rows but one."""
    return tuple(
        averages_fit(
            f"averages of {name} {setting}".strip(),
            f"nuclear.{name}",
            ROUNDING,
            setting=setting,
            leave_out=("SelfReg",) if name == "table6_1" else (),
            loose=("CORAL",) if name == "table6_1" else ("CDANN",) if name == "tableE_3" else (),
        )
        for name, setting in TABLES
    )


def averages_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Means of the cells of each row."""
    rows = {(n, s): without(table(n, s), *(("SelfReg",) if n == "table6_1" else ())) for n, s in TABLES}
    return {f"averages of {n} {s}".strip(): means(r) for (n, s), r in rows.items()}


def selfreg_said(settings: None) -> tuple[Statement, ...]:
    """64.2 in Table 6.1; the five cells add up to 319.8."""
    return both(
        "average of SelfReg",
        PERCENT,
        "Table 6.1, row SelfReg",
        reported=said("nuclear.table6_1", row="SelfReg", metric="average"),
        corrected=64.0,
        says="77.8 + 85.6 + 67.9 + 47.0 + 41.5 = 319.8, a fifth of which rounds to 64.0",
        margin=ROUNDING,
    )


def selfreg_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """The mean of its cells."""
    return {"average of SelfReg": means({"SelfReg": table("table6_1")["SelfReg"]})}


# --- orders and gains ------------------------------------------------------------------------------------------------


def order_said(settings: None) -> tuple[Statement, ...]:
    """Rows are listed by average, and SWAD-NU is on top."""
    upward = np.arange(21.0)
    return (
        equal(
            "rows of other work in the order of their averages",
            COUNT,
            upward,
            "Table 6.1: rows by average, those of one average as they stand",
            axis="row",
            rival=np.append(upward[:-2], upward[:-3:-1]),
            rival_says="the last two exchanged",
        ),
        equal(
            "place of SWAD-NU by average among all 25",
            COUNT,
            1.0,
            "Section 6.3.2: the best average",
            rival=2.0,
            rival_says="behind SWAD",
        ),
    )


def order_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Places by reported average."""
    rows = table("table6_1")
    shown = averages(rows)
    return {
        "rows of other work in the order of their averages": np.argsort(shown[:21], kind="stable").astype(float),
        "place of SWAD-NU by average among all 25": float(place(rows["SWAD-NU"]["average"], shown)),
    }


def gains_said(settings: None) -> tuple[Statement, ...]:
    """The nuclear norm lowers no column of Table 6.1, and by 'significantly' more than its errors can make."""
    return (
        at_least(
            "gain of ERM-NU and of SWAD-NU in each column",
            POINTS,
            0.0,
            "Table 6.1",
            axis="column",
            margin=EXACT,
            rival=off(np.zeros(10), -DIGIT),
            rival_says="one column lower by a digit",
        ),
        at_least(
            "gain over the five data sets together, in its standard error",
            REAL,
            2.0,
            "Section 6.3.2, 'significantly', for which it gives no threshold",
            axis="ERM, SWAD",
            rival=0.0,
            rival_says="no gain",
            form="criterion",
        ),
    )


def gains_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Differences column by column, and their sum over the root of the summed squared deviations of three runs each."""
    rows, error = table("table6_1"), table("table6_1", spread=True)
    gain = np.array([less(rows[f"{b}-NU"], rows[b], COLUMNS) for b in ("ERM", "SWAD")])
    squares = [sum(error[r][c] ** 2 for c in COLUMNS for r in (b, f"{b}-NU")) for b in ("ERM", "SWAD")]
    return {
        "gain of ERM-NU and of SWAD-NU in each column": gain.ravel(),
        "gain over the five data sets together, in its standard error": gain.sum(1) / np.sqrt(squares),
    }


def averages_gain() -> np.ndarray:
    """(5, 3): gain of the averages of Table 6.2, data sets by bases."""
    rows = [table("table6_2", s) for s in SETS]
    return np.array([[r[f"{b}-NU"]["average"] - r[b]["average"] for b in BASES] for r in rows])


def pairs_said(settings: None) -> tuple[Statement, ...]:
    """All 15 averages go up (the bars of Figure 6.4); of single domains the text says nothing."""
    return (
        at_least(
            "gain of the 15 averages",
            POINTS,
            DIGIT,
            "Section 6.3.2 and Figure 6.4: every bar is above 0, so by a digit or more",
            axis="data set and base",
            margin=EXACT,
            rival=0.0,
            rival_says="level",
        ),
        at_most(
            "gain of single domains",
            POINTS,
            -DIGIT,
            "Table 6.2: the text speaks of averages",
            axis="domain and base",
            margin=EXACT,
            quantifier="some",
            quantifier_says="single domains also go down",
            rival=0.0,
            rival_says="none goes down",
            form="derived",
        ),
    )


def pairs_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Differences of Table 6.2."""
    every = [
        rows[f"{b}-NU"][m] - v
        for rows in (table("table6_2", s) for s in SETS)
        for b in BASES
        for m, v in rows[b].items()
        if m != "average"
    ]
    return {"gain of the 15 averages": averages_gain().ravel(), "gain of single domains": np.array(every)}


def draw_bars() -> dict[str, Any]:
    """Figure 6.4 from the reported table."""
    from matplotlib.figure import Figure

    from featlearn.report.plots import Picture

    gain = averages_gain()
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for i, (base, colour) in enumerate(zip(BASES, ("#0072B2", "#E69F00", "#009E73"), strict=True)):
        bars = axes.bar(np.arange(5) + 0.26 * (i - 1), gain[:, i], 0.25, label=f"{base}-NU minus {base}", color=colour)
        axes.bar_label(bars, fmt="%.1f", fontsize=8)
    axes.set_xticks(np.arange(5), SETS)
    axes.set_ylabel("gain of average accuracy (points)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    caption = "Gain of average accuracy by the nuclear norm over three base methods, from the numbers of Table 6.2."
    return {"nuclear.fig6_4": Picture(figure, caption)}


def alternatives_said(settings: None) -> tuple[Statement, ...]:
    """With SWAD, NU leads on the columns of Table 6.3; over all five data sets MIRO does (Table E.6)."""
    return (
        at_least(
            "lead of SWAD-NU on the best other, VLCS, PACS, DomainNet and average",
            POINTS,
            DIGIT,
            "Section 6.3.2 and Table 6.3",
            axis="column",
            margin=EXACT,
            rival=off(np.full(4, DIGIT), -DIGIT),
            rival_says="level on one of them",
        ),
        equal(
            "places of SWAD-MIRO and SWAD-NU by average of all five data sets",
            COUNT,
            np.array([1.0, 2.0]),
            "Table E.6",
            rival=np.array([2.0, 1.0]),
            rival_says="the other way round",
        ),
    )


def alternatives_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Leads in Table 6.3, places in Table E.6."""
    three, six = table("table6_3"), table("tableE_6")
    others = without(three, "SWAD-NU").values()
    lead = [three["SWAD-NU"][c] - max(r[c] for r in others) for c in (*SHARED, "average")]
    places = [float(place(six[k]["average"], averages(six))) for k in ("SWAD-MIRO", "SWAD-NU")]
    return {
        "lead of SWAD-NU on the best other, VLCS, PACS, DomainNet and average": np.array(lead),
        "places of SWAD-MIRO and SWAD-NU by average of all five data sets": np.array(places),
    }


# --- rows that stand in two tables -----------------------------------------------------------------------------------


def rows_said(settings: None) -> tuple[Statement, ...]:
    """Rows of Table 6.2 and averages of Table 6.1, as they stand there."""
    out = []
    for name, setting, column in zip(FULL, SETS, COLUMNS, strict=True):
        part = said("nuclear.table6_2", setting=setting)
        main = {str(p.row): p.value for p in entry("nuclear.table6_1").reported if p.metric == column}
        full = {str(p.row) for p in entry(f"nuclear.{name}").reported}
        left = SWAPPED if name == "tableE_3" else ()
        shown = np.array([v for k, v in main.items() if k in full and k not in left], dtype=float)
        out += [
            equal(
                f"six rows of {setting} in {name}",
                PERCENT,
                part,
                f"Table 6.2, {setting}",
                axis="number",
                margin=EXACT,
                rival=off(part, -DIGIT),
                rival_says="one number another by a digit",
            ),
            equal(
                f"averages of {name} in table6_1",
                PERCENT,
                shown,
                f"Table 6.1, column {column}",
                axis="row",
                margin=ROUNDING,
                rival=off(shown, -2 * DIGIT),
                rival_says="one row another by two digits",
            ),
        ]
    three = said("nuclear.table6_3")
    swad = np.array([v for r in ("SWAD", "SWAD-NU") for v in said("nuclear.table6_1", row=r)])
    for label, part, source in (("table6_3", three, "Table 6.3"), ("SWAD and SWAD-NU of table6_1", swad, "Table 6.1")):
        out.append(
            equal(
                f"{label} in tableE_6",
                PERCENT,
                part,
                source,
                axis="number",
                margin=EXACT,
                rival=off(part, -DIGIT),
                rival_says="one number another by a digit",
            )
        )
    return tuple(out)


def rows_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """The same rows in Tables E.1 to E.6."""
    main, six, seen = table("table6_1"), table("tableE_6"), {}
    for name, setting in zip(FULL, SETS, strict=True):
        full, few = table(name), table("table6_2", setting)
        left = SWAPPED if name == "tableE_3" else ()
        seen[f"six rows of {setting} in {name}"] = np.array(
            [full[r][m] for r, row in few.items() for m in row if m != "average"]
        )
        seen[f"averages of {name} in table6_1"] = np.array(
            [full[r]["average"] for r in main if r in full and r not in left]
        )
    seen["table6_3 in tableE_6"] = np.array([six[r][c] for r in table("table6_3") for c in SHARED])
    seen["SWAD and SWAD-NU of table6_1 in tableE_6"] = np.array(
        [six[r][c] for r in ("SWAD", "SWAD-NU") for c in COLUMNS]
    )
    return seen


def swap_said(settings: None) -> tuple[Statement, ...]:
    """OfficeHome in Table E.3: Fishr and mDSDI."""
    there = np.array([float(said("nuclear.tableE_3", row=r, metric="average")[0]) for r in SWAPPED])
    return both(
        "averages of Fishr and mDSDI on OfficeHome in Table 6.1",
        PERCENT,
        "Table E.3",
        reported=there,
        corrected=there[::-1].copy(),
        says="the two exchanged",
        margin=ROUNDING,
        axis="row",
    )


def swap_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """The two in Table 6.1."""
    main = table("table6_1")
    return {
        "averages of Fishr and mDSDI on OfficeHome in Table 6.1": np.array([main[r]["officehome"] for r in SWAPPED])
    }


def prose_said(settings: None) -> tuple[Statement, ...]:
    """1.7 points on average, 3.5 on Terra Incognita with ERM, 3.1 on DomainNet with Mixup."""
    numbers = entry("nuclear.text_claims").numbers
    gains = np.array([numbers[k] for k in ("ERM_NU_minus_ERM_avg", "TerraInc_ERM", "DomainNet_Mixup")], dtype=float)
    return (
        equal(
            "gain of ERM-NU on average, on Terra Incognita, and of Mixup-NU on DomainNet",
            POINTS,
            gains,
            "Sections 6.1 and 6.3.2",
            axis="sentence",
            margin=EXACT,
            rival=off(gains),
            rival_says="one of them another by a digit",
        ),
    )


def prose_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """The same from Tables 6.1 and 6.2."""
    rows, gain = table("table6_1"), averages_gain()
    found = [rows["ERM-NU"]["average"] - rows["ERM"]["average"], gain[3, 0], gain[4, 1]]
    return {"gain of ERM-NU on average, on Terra Incognita, and of Mixup-NU on DomainNet": np.array(found)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="nuclear.table_averages",
        entries=EVERY,
        says="Averages of Tables 6.1-6.3 and E.1-E.6 are the means of their rows; SelfReg in 6.1 is another claim.",
        statements=audited(averages_said),
        observe=averages_observed,
        remarks="CORAL in 6.1 and CDANN in E.3 are within what rounding of their cells can make.",
    ),
    Claim(
        id="nuclear.table6_1_selfreg",
        entries=("nuclear.table6_1",),
        says="The average of SelfReg in Table 6.1 is the mean of its row.",
        statements=audited(selfreg_said),
        observe=selfreg_observed,
        accuses=Accusation(
            quote="SelfReg ... 64.2",
            place="Thesis, Table 6.1",
            reading="the average over the five data sets, as in the other rows",
            hits="number",
            derivation="the five cells 77.8, 85.6, 67.9, 47.0 and 41.5 add up to 319.8, so that their mean is 63.96; "
            "rounding of the cells moves it by 0.05 at most. The average or one of the cells may be at fault, and the "
            "row is quoted from other work.",
        ),
    ),
    Claim(
        id="nuclear.table6_1_order",
        entries=("nuclear.table6_1",),
        says="The 21 methods of other work go up by reported average; SWAD-NU is best of 25.",
        statements=audited(order_said),
        observe=order_observed,
    ),
    Claim(
        id="nuclear.table6_1_gains",
        entries=("nuclear.table6_1",),
        says="The nuclear norm lowers no column of ERM or SWAD, and gains significantly over the five data sets.",
        statements=audited(gains_said),
        observe=gains_observed,
        remarks="The text gives no threshold for 'significantly'; two standard errors are ours. The row of ERM is "
        "quoted from Gulrajani and Lopez-Paz (2021), as the caption says: a gap to it is one of two programs, too.",
    ),
    Claim(
        id="nuclear.table6_2_averages",
        entries=("nuclear.table6_2", "nuclear.fig6_4"),
        says="The nuclear norm raises all 15 averages of ERM, Mixup and SWAD over domains, the bars of Figure 6.4.",
        statements=audited(pairs_said),
        observe=pairs_observed,
        draw=draw_bars,
    ),
    Claim(
        id="nuclear.table6_3_order",
        entries=("nuclear.table6_3", "nuclear.tableE_6"),
        says="With SWAD, NU is best of none, CORAL, MIRO and NU on VLCS, PACS and DomainNet; on all five data sets "
        "MIRO is best on average and NU second.",
        statements=audited(alternatives_said),
        observe=alternatives_observed,
    ),
    Claim(
        id="nuclear.table_rows",
        entries=EVERY,
        says="Tables that share rows have the same numbers; Fishr and mDSDI on OfficeHome are a claim of their own.",
        statements=audited(rows_said),
        observe=rows_observed,
        remarks="Fish, Mixstyle, SAM and MIRO have no rows in Tables E.1 to E.5.",
    ),
    Claim(
        id="nuclear.tableE_3_swap",
        entries=("nuclear.tableE_3", "nuclear.table6_1"),
        says="Fishr and mDSDI have one average on OfficeHome in Tables E.3 and 6.1.",
        statements=audited(swap_said),
        observe=swap_observed,
        accuses=Accusation(
            quote="Fishr 69.2, mDSDI 67.8",
            place="Thesis, Table E.3, against Table 6.1 with Fishr 67.8 and mDSDI 69.2",
            reading="both tables show the averages of the same runs, as they do in every other row",
            hits="number",
            derivation="the two columns laid side by side: one table has the two rows exchanged. The averages of Table "
            "E.3 are the means of its own cells, which do not say which of the two it is.",
        ),
    ),
    Claim(
        id="nuclear.text_figures",
        entries=("nuclear.text_claims",),
        says="1.7 points on average, 3.5 on Terra Incognita with ERM, 3.1 on DomainNet with Mixup.",
        statements=audited(prose_said),
        observe=prose_observed,
    ),
)
