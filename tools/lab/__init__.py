"""The lab: throw-away nodes on this machine, for trying trainrig and for its tests. `make lab`, `make lab-clean`.

Read in this order:
  names.py      what a lab is: its name, its nodes, their addresses (pure)
  seed.py       the files that make a base system one particular node (pure)
  pip.py        this machine's pip settings, as a node can use them (pure)
  inventory.py  the inventory of a lab
  machine.py    this machine: what is needed, the lock, processes, control groups
  disk.py       the file system that nodes' disks are in
  network.py    one network namespace with a bridge; the only way out is to the package cache
  cache.py      the package cache, on this machine's end of that way
  bases.py      base systems, built once per release
  node.py       one node: its disk in layers, start, stop, power cut, snapshot, reset
  lab.py        all of it together: up and clean
  __main__.py   the command line
"""
