"""Federation: every site on its own machine, the same loop, and a hub that cannot read what it relays.

==============  ===============================================================================
settings        the TOML files of a site and of the hub
letters         letters, and what each kind must hold, checked before use
boxes           keys of sites, and boxes that only the receiver can open
table           a site's rows, how they are split, and its model
state           what a site remembers between messages, in a folder
agreement       the handshake: who takes part, and whether all agree on columns and task
participant     the site's side of every message
site_run        a site in one run: its models, one for each run that goes side by side, and its boxes
pooled          a site's rounds where all learn by partial pooling
boosted         a site's rounds of boosted differences, which follow these
lanes           the hub's engine: one run whose nodes are elsewhere
hub             the hub's side: handshake, rounds, choice (``alpha="auto"``), end
protocol        the hub's letters: what is asked, what comes back, who is silent
writing         what is written at the end: a site's model; the hub's numbers and report
flower          how letters travel over Flower
files           a ready-made Flower app, the sites' folders, certificates and keys
trial           hub and sites in one process
==============  ===============================================================================

flwr and cryptography are imported inside functions only; both come with the extra ``flower``.
"""
