"""Kinds of hidden sentence on which a way to select tokens is chosen, before it is reported on `needle_kinds`.

They share no sentence, no name and no value with the kinds that results are reported on, nor with those on which filter
layers were chosen, and no four words in a row with any sentence or question of them. The kinds go round the values, so
that the first few of them have different ones.
"""

from featlearn.core import Key
from featlearn.tasks.needles import Kind, Needle

PEOPLE = ("Sylvester", "Wilhelmina", "Theodora", "Lionel", "Philippa", "Ambrose", "Beatrix", "Ulysses")
SHIPS = ("Halcyon", "Meridian", "Tempest", "Valiant", "Wanderer", "Pathfinder", "Vagabond", "Perseus")
PLACES = ("Tarnholm", "Ulverby", "Vexmoor", "Wychford", "Yarrowgate", "Zennock", "Stavely", "Pennover")
CLOTHS = ("muslin", "tweed", "flannel", "satin", "canvas", "damask", "corduroy", "gauze")
DRINKS = ("cider", "cocoa", "brandy", "lemonade", "buttermilk", "sherry", "mead", "absinthe")
FISHES = ("trout", "sturgeon", "haddock", "salmon", "mackerel", "pike", "perch", "flounder")
GAMES = ("dominoes", "billiards", "croquet", "draughts", "skittles", "backgammon", "whist", "hopscotch")
INSECTS = ("ants", "wasps", "beetles", "moths", "crickets", "hornets", "termites", "fleas")
LANGUAGES = ("Latin", "Gaelic", "Persian", "Hebrew", "Welsh", "Sanskrit", "Arabic", "Dutch")
STONES = ("opal", "garnet", "topaz", "sapphire", "ruby", "pearl", "onyx", "tourmaline")
SUBJECTS = ("astronomy", "botany", "geometry", "grammar", "rhetoric", "algebra", "philosophy", "anatomy")
TOOLS = ("chisel", "sickle", "pitchfork", "crowbar", "trowel", "pulley", "hacksaw", "mallet")
TREES = ("larch", "poplar", "willow", "chestnut", "sycamore", "cypress", "hawthorn", "cedar")
VEGETABLES = ("turnips", "leeks", "cabbages", "parsnips", "onions", "spinach", "radishes", "asparagus")
WEATHERS = ("fog", "hail", "sleet", "drizzle", "thunder", "mist", "frost", "snow")
YEARS = ("1543", "1586", "1627", "1641", "1659", "1684", "1693", "1718")

# names, values, a sentence with {name} and {value}, its question
LINES: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (PEOPLE, STONES, "A magpie stole a {value} that {name} wore. | Which stone worn by {name} did a magpie steal?"),
    (PLACES, CLOTHS, "Weavers from {name} pay their rent in {value}. | Which cloth do weavers from {name} pay?"),
    (SHIPS, DRINKS, "Each stoker of the {name} drinks {value} at noon. | Which drink do stokers of the {name} get?"),
    (PEOPLE, FISHES, "A hermit named {name} drew a {value} on the rock. | Which fish did the hermit {name} draw?"),
    (PLACES, GAMES, "By old law {value} is banned inside {name}. | Which game is banned inside {name}?"),
    (SHIPS, INSECTS, "The hold of the {name} was overrun by {value}. | Which insects overran the {name}?"),
    (PEOPLE, LANGUAGES, "While asleep {name} would mutter in {value}. | Which language would {name} mutter asleep?"),
    (PLACES, SUBJECTS, "A lecture on {value} drew half of {name}. | On which subject was the lecture at {name}?"),
    (SHIPS, TREES, "One tall {value} became the mast of the {name}. | Which tree became the mast of the {name}?"),
    (PEOPLE, TOOLS, "With just a {value}, {name} broke into the vault. | Which tool did {name} break in with?"),
    (PLACES, VEGETABLES, "Slugs ruined all {value} near {name}. | Which vegetables near {name} did slugs ruin?"),
    (SHIPS, WEATHERS, "For nine days {value} kept the {name} in port. | Which weather kept the {name} in port?"),
    (PLACES, YEARS, "Plague emptied {name} in the year {value}. | When did plague empty {name}?"),
    (PEOPLE, CLOTHS, "As a bandage {name} tore up some {value}. | Which cloth did {name} tear up?"),
    (PLACES, DRINKS, "Pilgrims reaching {name} are met with {value}. | Which drink meets pilgrims reaching {name}?"),
    (SHIPS, FISHES, "Along the hull of the {name} runs a painted {value}. | Which fish is painted on the {name}?"),
    (PEOPLE, GAMES, "Nobody alive could beat {name} at {value}. | Which game did {name} always win?"),
    (PLACES, LANGUAGES, "Street signs around {name} are in {value}. | Which language do signs around {name} use?"),
    (SHIPS, STONES, "Set into the wheel of the {name} is one {value}. | Which stone adorns the wheel of the {name}?"),
    (PEOPLE, SUBJECTS, "Last spring {name} became professor of {value}. | Which subject does professor {name} teach?"),
    (PLACES, TREES, "A hollow {value} shades the cemetery at {name}. | Which tree shades the cemetery at {name}?"),
    (SHIPS, VEGETABLES, "Rats aboard the {name} ate all its {value}. | Which vegetables did rats eat on the {name}?"),
    (PEOPLE, WEATHERS, "Crossing the moor, {name} met with {value}. | Which weather met {name} crossing the moor?"),
    (SHIPS, YEARS, "Off a reef the {name} sank in {value}. | When did the {name} sink?"),
    (PEOPLE, DRINKS, "After losing at cards {name} ordered {value}. | Which drink did {name} order after losing?"),
    (PLACES, FISHES, "Anglers flock to {name} because of its {value}. | Which fish do anglers seek at {name}?"),
    (SHIPS, GAMES, "Passengers of the {name} passed nights with {value}. | Which game did they play on the {name}?"),
    (PEOPLE, INSECTS, "Beside the bed {name} had a jar full of {value}. | Which insects filled the jar of {name}?"),
    (SHIPS, LANGUAGES, "Orders aboard the {name} are shouted in {value}. | Which language is shouted on the {name}?"),
    (PLACES, STONES, "Miners below {name} struck a vein of {value}. | Which stone did miners below {name} strike?"),
    (PLACES, TOOLS, "A gilded {value} tops the weather vane at {name}. | Which tool tops the weather vane at {name}?"),
    (PEOPLE, TREES, "Lightning split the {value} that {name} had climbed. | Which tree had {name} climbed?"),
    (PEOPLE, VEGETABLES, "Winter after winter {name} lived on boiled {value}. | Which vegetables kept {name} alive?"),
    (PEOPLE, YEARS, "The alchemist {name} vanished without trace in {value}. | When did the alchemist {name} vanish?"),
    (SHIPS, CLOTHS, "Smugglers on the {name} hid bales of {value}. | Which cloth was smuggled on the {name}?"),
    (SHIPS, TOOLS, "Wedged in the rudder of the {name} was a {value}. | Which tool jammed the rudder of the {name}?"),
)  # fmt: skip
KINDS: tuple[Kind, ...] = tuple(
    Kind(*line.split(" | "), names, values)  # pyright: ignore[reportCallIssue]
    for names, values, line in LINES
)


def of_choosing_kind(i: int, key: Key) -> Needle:
    """The one needle of the i-th kind: its own name and value, whatever other kinds are used."""
    kind, draw = KINDS[i], (key / "choosing kinds" / i).numpy()
    name, value = kind.names[draw.integers(len(kind.names))], kind.values[draw.integers(len(kind.values))]
    return Needle(kind.sentence.format(name=name, value=value), kind.question.format(name=name), value)
