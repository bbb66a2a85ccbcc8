"""Runs a machine's boot script in a network of its own, in which only the given addresses answer.

usage: machine.py HOST:PORT=TARGET_HOST:TARGET_PORT ...

Writes `own` or, where network namespaces are not permitted, `shared` into the file `network`, and starts `boot.sh`.
Connections are taken inside and made outside: a socket stays in the network it was made in, whoever holds it.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
import threading

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, IFF_UP_RUNNING = 0x8914, 0x8916, 0x891C, 0x41


def leave_network():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    for path, text in [("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")]:
        with open(f"/proc/self/{path}", "w") as file:
            file.write(text)
    return True


def raise_loopback(extra):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP_RUNNING))
        for number, host in enumerate(extra):
            name = f"lo:{number}".encode()
            for request, address in [(SIOCSIFADDR, host), (SIOCSIFNETMASK, "255.255.255.255")]:
                packed = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(address))
                fcntl.ioctl(control, request, packed)


def end_point(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def pump(source, sink):
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve(listener, target):
    while True:
        inside, _ = listener.accept()
        try:
            outside = socket.create_connection(target)
        except OSError:
            inside.close()
            continue
        for pair in [(inside, outside), (outside, inside)]:
            threading.Thread(target=pump, args=pair, daemon=True).start()


def say(text):
    with open("network.tmp", "w") as file:
        file.write(text)
    os.rename("network.tmp", "network")


def machine(channel, addresses):
    if leave_network():
        raise_loopback(sorted({host for host, _ in addresses if not host.startswith("127.")}))
        listeners = [socket.create_server(address) for address in addresses]
        socket.send_fds(channel, [b"own"], [listener.fileno() for listener in listeners])
        os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = os.environ["AWS_METADATA_ENDPOINT"] = "http://169.254.169.254"
        say("own")
    else:
        channel.send(b"shared")
        say("shared")
    os.execv("/bin/sh", ["/bin/sh", "boot.sh"])


pairs = [[end_point(side) for side in pair.split("=")] for pair in sys.argv[1:]]
near, far = socket.socketpair()
if os.fork() == 0:
    near.close()
    machine(far, [inside for inside, _ in pairs])
far.close()
_, descriptors, _, _ = socket.recv_fds(near, 16, 16)
for descriptor, (_, target) in zip(descriptors, pairs):
    threading.Thread(target=serve, args=(socket.socket(fileno=descriptor), target), daemon=True).start()
os.wait()
# The machine is up until it is shut down, whatever its boot script does.
threading.Event().wait()
