"""Names of the rows that the lottery experiment writes and claims read."""

LOTTERY = "gradient_features/lottery"
FULL = "full network"
TICKET = "ticket"
ZERO = "ticket, second layer from 0"
CUT = "ticket, one feature missing"
REWOUND = "ticket, rewound"
START = "ticket, rewound, no step one"
MAGNITUDE = "largest neurons"
RANDOM = "random neurons"
SUBNETWORKS = (TICKET, ZERO, CUT, REWOUND, START, MAGNITUDE, RANDOM)
INSIDE, OUTSIDE = "ticket within the full network", "the rest of the full network"
XOR, PARITY = "XOR", "parity"
