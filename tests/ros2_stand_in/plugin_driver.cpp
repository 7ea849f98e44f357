// Drives the plugin from Python, as the controller manager does.
#include <cmath>
#include <cstring>

#include "controller_interface/controller_interface.hpp"
#include "geometry_msgs/msg/twist.hpp"

controller_interface::ControllerInterface * make_plugin();

namespace
{
std::unique_ptr<controller_interface::ControllerInterface> plugin;
std::vector<double> states, commands;

template<class Interface, class Values>
std::vector<Interface> lend(const std::vector<std::string> & names, Values & values)
{
  std::vector<Interface> out;
  values.assign(names.size(), std::nan(""));
  for (std::size_t i = names.size(); i-- > 0; ) {  // in another order than requested
    out.emplace_back(names[i], &values[i]);
  }
  return out;
}
}  // namespace

extern "C" {

// Initializes, configures and activates; returns 0, or the number of the step that failed.
int start(unsigned int rate)
{
  using controller_interface::CallbackReturn;
  plugin.reset(make_plugin());
  plugin->update_rate = rate;
  if (plugin->on_init() != CallbackReturn::SUCCESS) {
    return 1;
  }
  if (plugin->on_configure({}) != CallbackReturn::SUCCESS) {
    return 2;
  }
  plugin->assign_interfaces(
    lend<hardware_interface::LoanedCommandInterface>(plugin->command_interface_configuration().names, commands),
    lend<hardware_interface::LoanedStateInterface>(plugin->state_interface_configuration().names, states));
  return plugin->on_activate({}) == CallbackReturn::SUCCESS ? 0 : 3;
}

// Names of the interfaces, in one text.
const char * interface_names(int of_states)
{
  static std::string text;
  text.clear();
  const auto found = of_states ? plugin->state_interface_configuration() : plugin->command_interface_configuration();
  for (const auto & name : found.names) {
    text += name + " ";
  }
  return text.c_str();
}

void request(double forward, double left, double turn)
{
  auto message = std::make_shared<geometry_msgs::msg::Twist>();
  message->linear.x = forward;
  message->linear.y = left;
  message->angular.z = turn;
  using Subscription = rclcpp::Subscription<geometry_msgs::msg::Twist>;
  std::any_cast<std::shared_ptr<Subscription>>(rclcpp::topics.at("~/cmd_vel"))->callback(message);
}

// One update: values of the state interfaces in, efforts out.
void update(double time, const double * values, double * efforts)
{
  std::memcpy(states.data(), values, states.size() * sizeof *values);
  plugin->update(rclcpp::Time(time), rclcpp::Duration(0.002));
  std::memcpy(efforts, commands.data(), commands.size() * sizeof *efforts);
}

void stop(double * efforts)
{
  plugin->on_deactivate({});
  std::memcpy(efforts, commands.data(), commands.size() * sizeof *efforts);
}

}  // extern "C"
