"""ports: a port of loopback for a server that must be told one, and perhaps come back to it. Everybody else listens on port 0."""
import random
import socket


def free_port():
    """one that nobody has, below those that the kernel gives to clients: one of those could be taken again before the test listens there"""
    choose = random.SystemRandom()
    for _ in range(1000):
        port = choose.randrange(12000, 32000)
        try:
            with socket.create_server(('127.0.0.1', port)):
                return port
        except OSError:
            pass
    raise SystemExit('Bail out! no port is free')
