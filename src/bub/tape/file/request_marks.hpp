#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <bub/tape/tape_entry.hpp>

namespace bub::detail {

/// The times of a pending request, and its tape.
struct RequestMark {
    double created_at = 0;
    double expires_at = 0;  ///< infinite: does not expire
    std::string tape = {};

    friend auto operator<=>(const RequestMark&, const RequestMark&) = default;
    friend bool operator==(const RequestMark&, const RequestMark&) = default;
};

using RequestMarkSet = std::set<RequestMark>;

/// Returns the marks of the requests in a side state that have not expired.
RequestMarkSet marks_of(const std::string& tape, const JsonObject& state);

/// The index of the pending requests of a directory of tapes: a directory with an empty file, a mark, for each request,
/// which is named after the request's times and tape. A mark is created before the side state with its request is
/// stored, and removed afterwards, both under the tape's lock. So a killed process may leave a mark without a request, but
/// never a request without a mark. No lock is needed to read the marks.
class RequestMarks {
public:
    RequestMarks(std::filesystem::path directory, bool sync);

    /// Returns false if the index is new, or has been removed: then there may be requests without a mark.
    bool is_complete() const;
    std::vector<RequestMark> read() const;
    /// Creates the marks that are not in `present`.
    void add(const RequestMarkSet& marks, const RequestMarkSet& present) const;
    /// Removes the marks that are not in `wanted`. A mark that cannot be removed stays, which is harmless.
    void remove(const RequestMarkSet& marks, const RequestMarkSet& wanted) const noexcept;
    /// Records that each stored request has a mark.
    void set_complete() const;

private:
    std::filesystem::path path_of(const RequestMark& mark) const;

    std::filesystem::path directory_;
    bool sync_;
};

}  // namespace bub::detail
