"""Federation: every site on its own machine, the same loop, and a hub that cannot read what it relays.

==============  ===============================================================================
settings        the TOML files of a site and of the hub
letters         letters, and what each kind must hold, checked before use
boxes           keys of sites, and boxes that only the receiver can open
table           a site's rows, how they are split, and its model
state           what sites and hub remember between messages, in folders
agreement       the handshake: who takes part, and whether all agree on columns and task
participant     the site's side of every message
site_run        a site in one run: its models, one for each run that goes side by side, and its boxes
lanes           the hub's engine: one run whose nodes are elsewhere; ``alpha="auto"``
hub             the hub's side: handshake, rounds, choice, end
protocol        the hub's letters: what is asked, what comes back, who is silent
writing         what is written at the end: a site's model; the hub's numbers and report
flower          how letters travel over Flower
files, keys     a ready-made Flower app, the sites' folders, certificates and keys
processes       Flower's processes on this machine
trial           a whole federation on this machine
==============  ===============================================================================

flwr and cryptography are imported inside functions only; both come with the extra ``flower``.
"""
