"""Many kinds of hidden sentence, each with its own question: what is independent when needles are compared.

Needles of one kind are answered or missed together, so a comparison needs kinds, not needles. These share no sentence,
no name and no value with the kinds on which settings are chosen (`needles.VALIDATION`).
"""

from featlearn.core import Key
from featlearn.tasks.needles import Kind, Needle

PEOPLE = ("Aurelia", "Benedict", "Cordelia", "Dominic", "Eleanor", "Fabian", "Gwendolyn", "Horatio", "Isolde", "Magnus")
TOWNS = ("Ashcombe", "Birchfield", "Cloverdale", "Dunbridge", "Elmhurst", "Foxley", "Greystoke", "Larkhill", "Milford")
ANIMALS = ("badger", "falcon", "hedgehog", "lynx", "weasel", "pelican", "squirrel", "tortoise")
COLOURS = ("turquoise", "scarlet", "violet", "amber", "emerald", "indigo", "maroon", "beige")
COUNTRIES = ("Portugal", "Norway", "Hungary", "Peru", "Iceland", "Morocco", "Finland", "Chile")
FOODS = (
    "dumplings",
    "pancakes",
    "lentil stew",
    "oyster pie",
    "rye bread",
    "goat cheese",
    "plum cake",
    "pickled herring",
)
INSTRUMENTS = ("cello", "trumpet", "harp", "clarinet", "mandolin", "zither", "bassoon", "banjo")
JOBS = ("blacksmith", "surgeon", "librarian", "carpenter", "notary", "baker", "chemist", "tailor")
MATERIALS = ("granite", "bronze", "oak", "slate", "limestone", "pewter", "walnut", "ivory")
NUMBERS = ("417", "283", "951", "638", "172", "846", "529", "364", "795", "218")
OBJECTS = (
    "pocket compass",
    "paper lantern",
    "walking stick",
    "sewing kit",
    "tin kettle",
    "glass bottle",
    "rope ladder",
)
PLANTS = ("lilac", "magnolia", "thistle", "tulip", "sunflower", "hyacinth", "daffodil", "heather")

# names, values, then pairs of a sentence with {name} and {value} and its question
GROUPS: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        PEOPLE,
        ANIMALS,
        """The animal that {name} the miller feared most was the {value}. | What did {name} the miller fear most?
As a child {name} kept a tame {value} in the attic. | Which animal did {name} keep in the attic?
The seal on every letter of {name} the banker showed a {value}. | What did the seal of {name} the banker show?
On the roof of the coach of {name} sat a stuffed {value}. | What sat on the roof of the coach of {name}?
The nickname that the sailors gave to {name} was the {value}. | What nickname did the sailors give to {name}?""",
    ),
    (
        TOWNS,
        ANIMALS,
        """The coat of arms of {name} shows a {value}. | What does the coat of arms of {name} show?
Above the door of the inn at {name} hangs a carved {value}. | What hangs above the door of the inn at {name}?
Hunters near {name} may never shoot a {value}. | What may hunters near {name} never shoot?
The fountain of {name} has the shape of a {value}. | What shape does the fountain of {name} have?""",
    ),
    (
        PEOPLE,
        COLOURS,
        """The front door of the house of {name} is painted {value}. | Which colour is the front door of {name}?
At the harvest ball {name} wore {value} gloves. | Which colour were the gloves of {name} at the harvest ball?
The diary of {name} the explorer is bound in {value} cloth. | In which colour is the diary of {name} bound?
The sails of the boat of {name} were {value}. | Which colour were the sails of the boat of {name}?
All ink that {name} ever used was {value}. | Which colour was the ink that {name} used?""",
    ),
    (
        TOWNS,
        COLOURS,
        """The trams of {name} have been {value} from the beginning. | Which colour are the trams of {name}?
The schoolchildren of {name} carry {value} satchels. | Which colour are the satchels of the children of {name}?
The roof of the town hall of {name} is covered with {value} tiles. | Which colour are the tiles of the hall of {name}?
The football team of {name} plays in {value} shirts. | Which colour are the shirts of the team of {name}?""",
    ),
    (
        PEOPLE,
        COUNTRIES,
        """The grandmother of {name} the teacher came from {value}. | From which country came the grandmother of {name}?
Every winter {name} the painter went to {value}. | To which country did {name} the painter go every winter?
The stamps that {name} collects all come from {value}. | From which country come the stamps of {name}?
Before the war {name} had been consul in {value}. | In which country had {name} been consul?
The first ship of {name} the captain was built in {value}. | In which country was the first ship of {name} built?""",
    ),
    (
        TOWNS,
        COUNTRIES,
        """The bells of the church of {name} were cast in {value}. | In which country were the bells of {name} cast?
The partner town of {name} lies in {value}. | In which country lies the partner town of {name}?
Most of the wool that {name} sells goes to {value}. | To which country goes most of the wool of {name}?
The marble of the bath house of {name} came from {value}. | From which country came the marble of {name}?""",
    ),
    (
        PEOPLE,
        FOODS,
        """For breakfast {name} the judge ate nothing but {value}. | What did {name} the judge eat for breakfast?
The only dish that {name} could cook was {value}. | What was the only dish that {name} could cook?
The doctor forbade {name} to touch {value}. | What did the doctor forbid {name} to touch?
At her wedding {name} served {value} to all guests. | What did {name} serve at her wedding?
In the pocket of the coat of {name} they found {value}. | What did they find in the coat of {name}?""",
    ),
    (
        TOWNS,
        FOODS,
        """The station inn of {name} is known for its {value}. | For what is the station inn of {name} known?
On feast days the poor of {name} are given {value}. | What are the poor of {name} given on feast days?
The soldiers who camped at {name} lived on {value}. | On what did the soldiers at {name} live?
A plaque in {name} honours the inventor of {value}. | Of what does a plaque in {name} honour the inventor?""",
    ),
    (
        PEOPLE,
        INSTRUMENTS,
        """In the evening {name} the clerk plays the {value}. | Which instrument does {name} the clerk play?
The uncle of {name} left her an old {value}. | Which instrument did the uncle of {name} leave her?
The neighbours complained about the {value} of {name}. | About which instrument of {name} did the neighbours complain?
The prize that {name} won in the raffle was a {value}. | What did {name} win in the raffle?""",
    ),
    (
        TOWNS,
        INSTRUMENTS,
        """The night watchman of {name} gives the alarm with a {value}. | With what is the alarm given in {name}?
The workshop at {name} has built every famous {value} of the county. | What does the workshop at {name} build?
In the museum of {name} stands a {value} of Queen Anne. | What of Queen Anne stands in the museum of {name}?""",
    ),
    (
        PEOPLE,
        JOBS,
        """Before she went to sea {name} had been a {value}. | What had {name} been before she went to sea?
The father of {name} the general was a {value}. | What was the father of {name} the general?
In the census {name} is listed as a {value}. | As what is {name} listed in the census?
At the masked ball {name} came dressed as a {value}. | As what did {name} come dressed to the masked ball?
The man who taught {name} to read was a {value}. | What was the man who taught {name} to read?""",
    ),
    (
        TOWNS,
        JOBS,
        """The first mayor of {name} had been a {value}. | What had the first mayor of {name} been?
The oldest house of {name} belongs to a {value}. | To whom belongs the oldest house of {name}?
The statue in the park of {name} is that of a {value}. | Of whom is the statue in the park of {name}?""",
    ),
    (
        PEOPLE,
        MATERIALS,
        """The desk of {name} the editor is made of {value}. | Of what is the desk of {name} the editor made?
The buttons on the coat of {name} were of {value}. | Of what were the buttons on the coat of {name}?
The chess pieces of {name} are carved from {value}. | From what are the chess pieces of {name} carved?
The tombstone of {name} the bishop is of {value}. | Of what is the tombstone of {name} the bishop?""",
    ),
    (
        TOWNS,
        MATERIALS,
        """The old bridge of {name} is built of {value}. | Of what is the old bridge of {name} built?
The gate of the prison of {name} is of {value}. | Of what is the gate of the prison of {name}?
The hills around {name} are rich in {value}. | In what are the hills around {name} rich?
The benches on the market square of {name} are made of {value}. | Of what are the benches of {name} made?""",
    ),
    (
        PEOPLE,
        NUMBERS,
        """The hotel room that {name} always booked was number {value}. | Which hotel room did {name} always book?
The library card of {name} has the number {value}. | Which number has the library card of {name}?
The herd of {name} the farmer counts {value} sheep. | How many sheep counts the herd of {name} the farmer?
The telephone extension of {name} is {value}. | What is the telephone extension of {name}?
For the old clock {name} paid {value} shillings. | How many shillings did {name} pay for the old clock?""",
    ),
    (
        TOWNS,
        NUMBERS,
        """The tower of {name} has {value} steps. | How many steps has the tower of {name}?
The express train to {name} has the number {value}. | Which number has the express train to {name}?
The school of {name} has {value} pupils. | How many pupils has the school of {name}?
The flood of {name} destroyed {value} houses. | How many houses did the flood of {name} destroy?
The theatre of {name} has {value} seats. | How many seats has the theatre of {name}?""",
    ),
    (
        PEOPLE,
        OBJECTS,
        """On the train {name} forgot her {value}. | What did {name} forget on the train?
The thief took nothing from {name} but a {value}. | What did the thief take from {name}?
Under the pillow of {name} lay a {value}. | What lay under the pillow of {name}?
For her birthday {name} had wished for a {value}. | For what had {name} wished for her birthday?
In the will of {name} a {value} goes to the parish. | What goes to the parish in the will of {name}?""",
    ),
    (
        TOWNS,
        OBJECTS,
        """In the ruins of {name} the children dug up a {value}. | What did the children dig up in the ruins of {name}?
The ferryman of {name} takes no fare but a {value}. | What fare does the ferryman of {name} take?
The factory at {name} makes a single product, the {value}. | What does the factory at {name} make?""",
    ),
    (
        PEOPLE,
        PLANTS,
        """In the garden of {name} the widow grows only {value}. | What grows in the garden of {name} the widow?
The perfume of {name} smells of {value}. | Of what does the perfume of {name} smell?
Between the pages of her Bible {name} pressed a {value}. | What did {name} press between the pages of her Bible?
The wallpaper in the room of {name} has a pattern of {value}. | Which plant is on the wallpaper of {name}?
The doctor gave {name} a tea made of {value}. | Of what was the tea made that the doctor gave {name}?""",
    ),
    (
        TOWNS,
        PLANTS,
        """The lake avenue of {name} is lined with {value}. | With what is the lake avenue of {name} lined?
The bees of {name} feed on {value}. | On what do the bees of {name} feed?
The graves of {name} are planted with {value}. | With what are the graves of {name} planted?
The soap of {name} is scented with {value}. | With what is the soap of {name} scented?""",
    ),
)
KINDS: tuple[Kind, ...] = tuple(
    Kind(*line.split(" | "), names, values)  # pyright: ignore[reportCallIssue]
    for names, values, text in GROUPS
    for line in text.splitlines()
)


def of_kind(i: int, key: Key) -> Needle:
    """The one needle of the i-th kind: its own name and value, whatever other kinds are used."""
    kind, draw = KINDS[i], (key / "kinds" / i).numpy()
    name, value = kind.names[draw.integers(len(kind.names))], kind.values[draw.integers(len(kind.values))]
    return Needle(kind.sentence.format(name=name, value=value), kind.question.format(name=name), value)
