"""Federation: every site on its own machine, the same loop, and a hub that cannot read what it relays.

==============  ===============================================================================
codec           arrays and envelopes as bytes, checked before use
sealing         keys of sites, and boxes that only the receiver can open
sitefile        a site's own settings (TOML)
table, rows     a site's rows, and how they are split
state           what a site remembers between messages, in a folder
agreement       the handshake: who takes part, and whether all agree on columns and task
participant     the site's side of every message
lanes           the hub's engine: one run whose nodes are elsewhere
search          ``alpha="auto"``: all candidates and folds side by side
hub             the hub's side: handshake, rounds, choice, end
correspondence  the hub's letters: what is asked, what comes back, who is silent
memory          what the hub keeps after every round, to resume after a restart
transport       how letters travel, and a transport within one process
flower          how they travel over Flower
writing         what the hub writes at the end: numbers and the report, but no model
files, keys     a ready-made Flower app, the sites' folders, certificates and keys
looking         the live page of a federation
processes       Flower's processes on this machine
trial           a whole federation on this machine
==============  ===============================================================================

flwr and cryptography are imported inside functions only; both come with the extra ``flower``.
"""
