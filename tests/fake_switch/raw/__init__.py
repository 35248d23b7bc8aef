"""Many OpenFlow 1.3 switches in one process, as cheap as Python makes them: messages stay bytes.

Unlike the fake switches beside this package they validate little and refuse nothing: they are there to see what a
fabric of a thousand switches costs a controller. ``client.Fakes`` starts the process and talks to it.
"""
