#include <cubepi/tracing/recorder/resource_of.hpp>

#include <utility>

namespace cubepi::detail {

namespace {

/// A random UUID, version 4.
std::string random_uuid() {
    TraceId id = TraceId::random();
    id.bytes[6] = static_cast<std::uint8_t>((id.bytes[6] & 0x0fU) | 0x40U);
    id.bytes[8] = static_cast<std::uint8_t>((id.bytes[8] & 0x3fU) | 0x80U);
    std::string text = id.hex();
    for (const std::size_t at : {20U, 16U, 12U, 8U}) text.insert(at, 1, '-');
    return text;
}

}  // namespace

Resource resource_of(const TracerOptions& options) {
    Resource resource;
    const auto add = [&resource](AttributeKey key, const std::string& value) {
        if (!value.empty()) resource.attributes.set(std::move(key), SharedString(value));
    };
    add("telemetry.sdk.language", "cpp");
    add("telemetry.sdk.name", "cubepi");
    add("telemetry.sdk.version", CUBEPI_VERSION);
    add("service.instance.id",
        options.service_instance_id.empty() ? random_uuid() : options.service_instance_id);
    add("service.name", options.service_name.empty() ? "unknown_service" : options.service_name);
    add("service.namespace", options.service_namespace);
    add("service.version", options.service_version);
    add("deployment.environment.name", options.deployment_environment);
    add("gen_ai.agent.name", options.agent_name);
    add("gen_ai.agent.id", options.agent_id);
    add("gen_ai.agent.description", options.agent_description);
    add("gen_ai.agent.version", options.agent_version);
    return resource;
}

}  // namespace cubepi::detail
