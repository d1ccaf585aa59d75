"""Kinds of hidden sentence on which a way to select tokens is chosen, before it is reported on `needle_kinds`.

They share no sentence, no name and no value with the kinds that results are reported on, nor with those on which filter
layers were chosen, and no four words in a row with any sentence or question of them. The kinds go round the values, so
that the first few of them have different ones. Like the others they ask nearly in the words of the sentence: a first
draft that did not was answered 10 times in 36 by SmolLM2-135M-Instruct from 256 tokens of text and no filter, this one
about two times in three, so that a filter has something to lose.
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
    (
        PEOPLE,
        STONES,
        "The jewel that {name} lost at the opera was a {value}. | What was the jewel that {name} lost at the opera?",
    ),
    (
        PLACES,
        CLOTHS,
        "The weavers who live in {name} make only {value}. | What do the weavers who live in {name} make?",
    ),
    (
        SHIPS,
        DRINKS,
        "Every morning the crew of the {name} drinks {value}. | What does the crew of the {name} drink every morning?",
    ),
    (
        PEOPLE,
        FISHES,
        "The largest fish that {name} ever caught was a {value}. | What was the largest fish that {name} ever caught?",
    ),
    (PLACES, GAMES, "The one game that {name} forbids by law is {value}. | Which game does {name} forbid by law?"),
    (
        SHIPS,
        INSECTS,
        "The cabins on board the {name} were full of {value}. | What were the cabins on board the {name} full of?",
    ),
    (
        PEOPLE,
        LANGUAGES,
        "When dreaming {name} always spoke {value}. | Which language did {name} always speak when dreaming?",
    ),
    (
        PLACES,
        SUBJECTS,
        "The college at {name} teaches nothing besides {value}. | What does the college at {name} teach?",
    ),
    (
        SHIPS,
        TREES,
        "The mast of the {name} was made from a {value}. | From which tree was the mast of the {name} made?",
    ),
    (
        PEOPLE,
        TOOLS,
        "The burglar {name} opened every safe with a {value}. | Which tool opened every safe for {name}?",
    ),
    (
        PLACES,
        VEGETABLES,
        "The farmers around {name} grow mostly {value}. | What do the farmers around {name} mostly grow?",
    ),
    (
        SHIPS,
        WEATHERS,
        "The captain of the {name} was afraid of {value}. | What was the captain of the {name} afraid of?",
    ),
    (
        PLACES,
        YEARS,
        "The cathedral in {name} burned down in {value}. | In which year did the cathedral in {name} burn down?",
    ),
    (
        PEOPLE,
        CLOTHS,
        "The tent in which {name} slept was made from {value}. | What was the tent made from in which {name} slept?",
    ),
    (PLACES, DRINKS, "The tavern keeper in {name} sells only {value}. | What does the tavern keeper in {name} sell?"),
    (SHIPS, FISHES, "On the flag of the {name} one sees a {value}. | What does one see on the flag of the {name}?"),
    (
        PEOPLE,
        GAMES,
        "The champion {name} never lost a match of {value}. | Which game did the champion {name} never lose?",
    ),
    (
        PLACES,
        LANGUAGES,
        "The oldest families in {name} still speak {value}. | What do the oldest families in {name} still speak?",
    ),
    (SHIPS, STONES, "In the strongbox of the {name} lay a single {value}. | What lay in the strongbox of the {name}?"),
    (
        PEOPLE,
        SUBJECTS,
        "The professor {name} wrote ten books on {value}. | Which subject did the professor {name} write on?",
    ),
    (PLACES, TREES, "The tallest tree in {name} is a {value}. | What is the tallest tree in {name}?"),
    (
        SHIPS,
        VEGETABLES,
        "The cook aboard the {name} served {value} on Fridays. | What did the cook aboard the {name} serve on Fridays?",
    ),
    (
        PEOPLE,
        WEATHERS,
        "The wedding day of {name} was spoiled by {value}. | By what was the wedding day of {name} spoiled?",
    ),
    (
        SHIPS,
        YEARS,
        "The frigate {name} sank off a reef in {value}. | In which year did the frigate {name} sink off a reef?",
    ),
    (PEOPLE, DRINKS, "The cellar of {name} is filled with {value}. | What is the cellar of {name} filled with?"),
    (
        PLACES,
        FISHES,
        "The brook that runs through {name} is full of {value}. | What is the brook that runs through {name} full of?",
    ),
    (
        SHIPS,
        GAMES,
        "The officers aboard the {name} always play {value}. | What do the officers aboard the {name} always play?",
    ),
    (
        PEOPLE,
        INSECTS,
        "The scientist {name} spent forty years on {value}. | Which insects did the scientist {name} study?",
    ),
    (
        SHIPS,
        LANGUAGES,
        "The logbook of the {name} is written in {value}. | In which language is the logbook of the {name} written?",
    ),
    (
        PLACES,
        STONES,
        "The crown of the duke of {name} contains a {value}. | What does the crown of the duke of {name} contain?",
    ),
    (PLACES, TOOLS, "The patron saint of {name} holds a {value}. | What does the patron saint of {name} hold?"),
    (PEOPLE, TREES, "The poet {name} is buried beneath a {value}. | Beneath which tree is the poet {name} buried?"),
    (
        PEOPLE,
        VEGETABLES,
        "Even when starving {name} refused to eat {value}. | What did {name} refuse to eat even when starving?",
    ),
    (
        PEOPLE,
        YEARS,
        "The alchemist {name} vanished without trace in {value}. | In which year did the alchemist {name} vanish?",
    ),
    (SHIPS, CLOTHS, "The cargo of the {name} was three tons of {value}. | What was the cargo of the {name}?"),
    (SHIPS, TOOLS, "The ghost aboard the {name} carries a {value}. | What does the ghost aboard the {name} carry?"),
)
KINDS: tuple[Kind, ...] = tuple(
    Kind(*line.split(" | "), names, values)  # pyright: ignore[reportCallIssue]
    for names, values, line in LINES
)


def of_validation_kind(i: int, key: Key) -> Needle:
    """The one needle of the i-th kind: its own name and value, whatever other kinds are used."""
    kind, draw = KINDS[i], (key / "validation kinds" / i).numpy()
    name, value = kind.names[draw.integers(len(kind.names))], kind.values[draw.integers(len(kind.values))]
    return Needle(kind.sentence.format(name=name, value=value), kind.question.format(name=name), value)
