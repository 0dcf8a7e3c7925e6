/* A server of libmodbus on a port of this machine: unit 1 holds 0, 1, 2 ... in each table of 200. */
#include <errno.h>
#include <modbus/modbus.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  uint8_t query[MODBUS_TCP_MAX_ADU_LENGTH];
  modbus_t *bus = modbus_new_tcp("127.0.0.1", argc > 1 ? atoi(argv[1]) : 1502);
  modbus_mapping_t *map = modbus_mapping_new(200, 200, 200, 200);
  if (bus == NULL || map == NULL) return 1;
  for (int i = 0; i < 200; i++) {
    map->tab_registers[i] = map->tab_input_registers[i] = i;
    map->tab_bits[i] = map->tab_input_bits[i] = i % 3 == 0;
  }
  int listener = modbus_tcp_listen(bus, 1);
  if (listener == -1) return 1;
  printf("ready\n");
  fflush(stdout);
  for (;;) {
    modbus_tcp_accept(bus, &listener);
    for (;;) {
      int length = modbus_receive(bus, query);
      if (length > 0) modbus_reply(bus, query, length, map);
      else if (length == -1) break;
    }
    modbus_close(bus);
  }
}
