"""Pass TCP connections on: `relay.py LISTEN_ADDRESS LISTEN_PORT TARGET_ADDRESS TARGET_PORT`.

For pods, which reach an address of this machine but not its loopback, where the API server listens.
"""

import asyncio
import sys

CHUNK_BYTES = 64 * 1024


async def main(listen: tuple[str, int], target: tuple[str, int]) -> None:
    """Relay until killed."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target_reader, target_writer = await asyncio.open_connection(*target)
        except OSError:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, target_writer))
                group.create_task(_pass_on(target_reader, writer))
        finally:
            target_writer.close()
            writer.close()

    async with await asyncio.start_server(relay, *listen, limit=CHUNK_BYTES) as server:
        await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()  # one side broke off: so does the other


if __name__ == "__main__":
    asyncio.run(main((sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[4]))))
