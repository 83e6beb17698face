"""Federation: every site on its own machine, the same loop, and a hub that cannot read what it relays.

==============  ===============================================================================
settings        the TOML files of a site and of the hub
letters         letters, and what each kind must hold, checked before use
plan            what the hub tells every site about a run
sealing, boxes  keys of sites, and boxes that only the receiver can open
table           a site's rows, how they are split, and its model
state           what sites and hub remember between messages, in folders
agreement       the handshake: who takes part, and whether all agree on columns and task
participant     the site's side of every message
lane_sites      the site's models, one for each run that goes side by side
ending          the end of a run at a site
lanes           the hub's engine: one run whose nodes are elsewhere; ``alpha="auto"``
hub             the hub's side: handshake, rounds, choice, end
protocol        the hub's letters: what is asked, what comes back, who is silent
writing         what the hub shows and writes: numbers and the report, but no model
flower          how letters travel over Flower
files, keys     a ready-made Flower app, the sites' folders, certificates and keys
processes       Flower's processes on this machine
trial           a whole federation on this machine
==============  ===============================================================================

flwr and cryptography are imported inside functions only; both come with the extra ``flower``.
"""
