#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include <bub/channel/delivery_log.hpp>

// The requirements for a delivery log that survives its process (B18): the cases of delivery_log_suite_test.cpp, for each kind of storage that
// a test binary instantiates them with.

namespace bub::channel_tests {

/// A place for the records of deliveries.
class DeliveryStorage {
public:
    virtual ~DeliveryStorage() = default;
    /// Opens the log as the next process does. The log that was opened before is destroyed.
    virtual std::shared_ptr<DeliveryLog> open() = 0;
};

struct DeliveryStorageKind {
    std::string name;
    std::function<std::unique_ptr<DeliveryStorage>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const DeliveryStorageKind& kind) {
    return out << kind.name;
}

class DeliveryLogSuite : public testing::TestWithParam<DeliveryStorageKind> {
protected:
    DeliveryLogSuite() : storage(GetParam().make()), log(storage->open()) {}
    /// The process is killed, and the next one takes its records.
    UnfinishedRecords restart();

    std::unique_ptr<DeliveryStorage> storage;
    std::shared_ptr<DeliveryLog> log;
};

}  // namespace bub::channel_tests
