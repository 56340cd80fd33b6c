// What a PCIe link can carry, by its generation and as Linux describes that of a card.
#pragma once

#include <fstream>

#include "../common/first_edition.hpp"

/// Most that a PCIe link of so many gigatransfers a second and lanes carries each way in GB/s, packet headers included:
/// of the bits 8 of 10 are data up to 5 GT/s, 128 of 130 from 8 GT/s on; at 64 GT/s 242 of 256 bytes.
inline double link_gbs(double gigatransfers, int lanes) {
  return gigatransfers * lanes / 8 * (gigatransfers < 8 ? 8.0 / 10 : gigatransfers < 64 ? 128.0 / 130 : 242.0 / 256);
}

/// The same of a card's own link as it is now (an idle one may be slower), or 0 where Linux does not tell.
inline double link_gbs(const cudaDeviceProp& card) {
  char path[80];
  const auto read = [&](const char* what, auto value) {
    std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/current_link_%s",
                  unsigned(card.pciDomainID), unsigned(card.pciBusID), unsigned(card.pciDeviceID), what);
    std::ifstream(path) >> value;  // "32.0 GT/s PCIe", "16"; what is no number leaves 0
    return value;
  };
  const double gigatransfers = read("speed", 0.0);
  const int lanes = read("width", 0);
  return lanes <= 32 ? link_gbs(gigatransfers, lanes) : 0;  // 63 or 255: unknown
}
