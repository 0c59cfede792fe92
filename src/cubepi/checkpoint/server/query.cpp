#include <cubepi/checkpoint/server/query.hpp>

#include <algorithm>
#include <utility>

namespace cubepi::detail {

ServerQuery& ServerQuery::add(ServerValue::Type type, std::string_view text) {
    ServerValue& value = values_.emplace_back();
    value.type = type;
    value.text = text;
    return *this;
}

ServerQuery& ServerQuery::text(std::string_view value) {
    return add(ServerValue::Type::text, value);
}

ServerQuery& ServerQuery::text_or_null(std::string_view value) {
    add(ServerValue::Type::text, value);
    values_.back().null = value.empty();
    return *this;
}

ServerQuery& ServerQuery::integer(std::int64_t value) {
    add(ServerValue::Type::integer, {});
    values_.back().integer = value;
    return *this;
}

ServerQuery& ServerQuery::number(double value) {
    add(ServerValue::Type::number, {});
    values_.back().number = value;
    return *this;
}

ServerQuery& ServerQuery::bytes(std::string_view value) {
    return add(ServerValue::Type::bytes, value);
}

ServerQuery& ServerQuery::json(std::string_view value) {
    return add(ServerValue::Type::json, value);
}

ServerQuery& ServerQuery::texts(std::vector<std::string> values) {
    add(ServerValue::Type::texts, {});
    values_.back().texts = std::move(values);
    return *this;
}

ServerQuery& ServerQuery::rows_to(std::shared_ptr<ServerRowSink> sink) {
    sink_ = std::move(sink);
    return *this;
}

void ServerBatch::start_sinks() const noexcept {
    for (const ServerQuery& query : queries_) {
        if (query.sink()) query.sink()->start();
    }
}

std::string expand_escapes(
    std::string_view sql,
    const std::function<std::string(std::string_view name, std::string_view argument)>& expand) {
    std::string text;
    for (;;) {
        const std::size_t open = sql.find('{');
        const std::size_t close = sql.find('}', open);
        if (close == std::string_view::npos) break;
        text += sql.substr(0, open);
        const std::string_view escape = sql.substr(open + 1, close - open - 1);
        const std::size_t space = escape.find(' ');
        // '{}' is a JSON object.
        text += escape.empty() ? "{}"
                               : expand(escape.substr(0, space), space == std::string_view::npos
                                                                     ? std::string_view()
                                                                     : escape.substr(space + 1));
        sql.remove_prefix(close + 1);
    }
    return text += sql;
}

std::string assignments(std::string_view columns, std::string_view prefix,
                        std::string_view suffix) {
    std::string text;
    while (!columns.empty()) {
        const std::size_t comma = std::min(columns.find(','), columns.size());
        std::string_view column = columns.substr(0, comma);
        column.remove_prefix(std::min(column.find_first_not_of(' '), column.size()));
        columns.remove_prefix(std::min(comma + 1, columns.size()));
        if (!text.empty()) text += ", ";
        text += std::string(column) + " = " + std::string(prefix) + std::string(column) +
                std::string(suffix);
    }
    return text;
}

std::optional<std::string> ServerResult::optional_string(int row, int column) const {
    std::optional<std::string> value;
    if (!is_null(row, column)) value = string(row, column);
    return value;
}

}  // namespace cubepi::detail
