"""A fabric of OpenFlow 1.3 switches inside the test process, for tests that need a controller but no real packets.

    with FakeFabric(clos(4, 4, 4), ("127.0.0.1", 6653)) as fakes:
        fakes.wait_connected()
        ...
        assert fakes.ping_all() == []

They speak OpenFlow over TCP to a real ``ryu-manager``. What they do with flow-mods and group-mods is held against Open
vSwitch (tests/integration/fakes/test_fake_like_open_vswitch.py); what they do with packets is the interpreter's walk.
"""
