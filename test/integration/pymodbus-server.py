"""A server of pymodbus: on a TCP port, or as RTU on a serial device. Unit 1 holds 0, 1, 2 … in each table."""
import asyncio
import sys

from pymodbus.datastore import ModbusSequentialDataBlock, ModbusServerContext, ModbusSlaveContext
from pymodbus.server import StartAsyncSerialServer, StartAsyncTcpServer
from pymodbus.transaction import ModbusRtuFramer

words = [i & 0xFFFF for i in range(200)]
bits = [i % 3 == 0 for i in range(200)]


def block(values):
    return ModbusSequentialDataBlock(0, list(values))


unit = ModbusSlaveContext(di=block(bits), co=block(bits), hr=block(words), ir=block(words), zero_mode=True)
context = ModbusServerContext(slaves={1: unit}, single=False)


async def main():
    if sys.argv[1] == "tcp":
        serving = StartAsyncTcpServer(context, address=("127.0.0.1", int(sys.argv[2])))
    else:
        serving = StartAsyncSerialServer(context, framer=ModbusRtuFramer, port=sys.argv[2], baudrate=19200, parity="N")
    print("ready", flush=True)
    await serving


asyncio.run(main())
