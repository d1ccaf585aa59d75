"""Words and made-up names for the tasks of `ruler`.

No word is part of another, and no name of another of its kind: a reply that holds one holds no other by chance.
"""

ADJECTIVES = (
    """
    amber ancient bitter blunt brave brisk calm clever clumsy coarse cosy crimson curly dainty damp dapper
    dense dusty eager earthy elegant faint fierce fluffy foggy fragile frosty gentle giddy glossy graceful
    grumpy hasty hollow humble hungry jolly keen lazy lively lofty lonely loyal lucky mellow merry mighty
    misty modest muddy narrow neat nimble noble odd pale patient placid plump polite proud prickly quaint
    quick quiet rapid restless rough rusty salty sandy shallow sharp shy silent silky sleepy slender smoky
    solid spicy steep sticky stout sturdy subtle sunny swift tender thirsty tidy timid tiny tough tranquil
    vast velvet vivid warm wary wild witty wooden zealous
    """
).split()
NOUNS = (
    """
    acorn almond anchor anvil apricot badger balcony bamboo banjo barley basket beacon beaver beetle bicycle
    biscuit blanket bobbin bottle bramble bucket butter button cabin candle canoe canyon carpet castle cavern
    cedar cello chapel cheese cherry chimney cinder clover cobbler comet copper coral cottage cradle crater
    cricket crystal curtain cushion cypress daisy dolphin donkey drawer dragon easel elbow ember engine falcon
    feather fiddle fender ferry flannel fountain funnel garlic garnet geyser ginger glacier goblet gosling
    granite grape gravel hammer hamster harbour hazel hedge helmet heron hinge honey hornet igloo island ivory
    jacket jaguar jigsaw juniper kettle kitten ladder lagoon lantern lemon lettuce lizard lobster locket
    magnet mango maple marble meadow melon mirror mitten monsoon mosaic mushroom mustard napkin needle nettle
    nutmeg oboe octopus olive onion orchard otter oyster paddle panther parcel parsley pebble pelican pencil
    pepper pewter pigeon pillow pistachio planet pocket poplar prairie puddle pumpkin puppet quartz quilt
    rabbit raccoon raisin ribbon river robin rocket saddle saffron salmon sandal satchel saucer scarf shovel
    shutter sickle skillet sparrow spindle sponge squirrel stable statue sugar sundial teapot thimble thunder
    ticket tractor trumpet tulip tunnel turnip turtle umbrella urchin valley vinegar violin walnut whistle
    willow window yoghurt zebra
    """
).split()
FIRST_NAMES = (
    "Ada Albert Beatrix Bruno Cecilia Conrad Daphne Edgar Esther Felix Flora Gideon Harriet Henrik Ingrid Ivo "
    "Jonas Judith Klara Lambert Lydia Marcus Miriam Nadia Oscar Petra Quentin Ruth Silas Thea Ursula Viktor "
    "Wanda Xavier Yvonne Zoltan"
).split()
SURNAMES = (
    """
    Abernathy Barlow Castellan Dunmore Everard Fairbairn Galloway Hargreave Illingworth Jessop Kilbride
    Lockhart Merriweather Netherby Ormsby Pemberton Quayle Ravenscroft Stainforth Thackery Underhill
    Vantongeren Wetherall Yarborough Zellweger Aldington Brightwell Cattermole Drinkwater Entwistle
    Featherstone Goodenough Hollingsworth Inchbald Jellicoe Kettlewell Lillywhite Mandeville Nightingale
    Oglethorpe Postlethwaite Quillfeather Roughsedge Shuttlewick Twelvetrees Uppington Venables Winterbottom
    Yellowlees Zimmerling Ashdown Birtwhistle Clutterbuck Dashwood Ellershaw Fothergill Greatorex Heathcote
    Ironmonger Jarndyce Knatchbull Lethbridge Micklethwait Northcott Ollerenshaw Plumtree
    """
).split()
_FIRST = "Ald Bram Crick Dern Ems Fern Glen Hart Ilk Jed Kirk Lang Mossel Nether Orm Pend Quarn Rams Silver Thorn Ulver"
_LAST = (
    "bourne brook bury combe dale field ford gate ham haven holm hurst ley minster mouth ness port stead ton wick worth"
)
TOWNS = [first + last for first in _FIRST.split() for last in _LAST.split()]
_SOURCE = "Aver Bel Cor Dov Fal Gar Hal Is Kel Lor Mor Nar Ol Per Ros Sel Tam Ur Ven Wil"
RIVERS = [first + last for first in _SOURCE.split() for last in "ane ette ian ock omar une ysse aldo".split()]
