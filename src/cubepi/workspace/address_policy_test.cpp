#include <cubepi/workspace/fetch_tool.hpp>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(AddressPolicy, LetsPublicAddressesThrough) {
    for (const char* address :
         {"8.8.8.8", "1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.63.255.255",
          "100.128.0.1", "223.255.255.255", "192.0.1.1", "2606:4700::1111", "2a00:1450:4001::1",
          "64:ff9b::8.8.8.8", "2002:808:808::1"}) {
        EXPECT_TRUE(is_public_address(address)) << address;
    }
}

TEST(AddressPolicy, RefusesEverythingElse) {
    for (const char* address : {"127.0.0.1",
                                "127.255.255.255",
                                "0.0.0.0",
                                "0.1.2.3",
                                "10.0.0.1",
                                "10.255.255.255",
                                "172.16.0.1",
                                "172.31.255.255",
                                "192.168.1.1",
                                "169.254.169.254",
                                "100.64.0.1",
                                "100.127.255.255",
                                "192.0.0.1",
                                "192.0.2.1",
                                "198.18.0.1",
                                "198.51.100.1",
                                "203.0.113.9",
                                "224.0.0.1",
                                "239.255.255.255",
                                "240.0.0.1",
                                "255.255.255.255",
                                "::",
                                "::1",
                                "::ffff:127.0.0.1",
                                "::ffff:10.0.0.1",
                                "::ffff:8.8.8.8",
                                "::127.0.0.1",
                                "fe80::1",
                                "fe80::1%eth0",
                                "fec0::1",
                                "fc00::1",
                                "fd12:3456::1",
                                "ff02::1",
                                "64:ff9b::10.0.0.1",
                                "64:ff9b::7f00:1",
                                "64:ff9b:1::1",
                                "2002:7f00:1::1",
                                "2002:a00:1::1",
                                "2001::1",
                                "2001:db8::1",
                                "3fff:123::1",
                                "100::1",
                                "5f00::1",
                                "",
                                "localhost",
                                "2130706433",
                                "0x7f.1",
                                "127.1"}) {
        EXPECT_FALSE(is_public_address(address)) << address;
    }
}

}  // namespace
}  // namespace cubepi
