#pragma once

#include <string>

namespace bub {

/// Optional interface of a channel that can fail to receive messages while it is served. Called on the manager's executor.
class ReportsProblem {
public:
    virtual ~ReportsProblem() = default;
    /// Returns why no messages are received at the moment; empty: they are.
    virtual std::string problem() const = 0;
};

}  // namespace bub
