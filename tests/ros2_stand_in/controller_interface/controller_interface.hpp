// Stand-in for controller_interface and hardware_interface of ros2_control, see README.md.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "rclcpp_lifecycle/state.hpp"

namespace hardware_interface
{

class LoanedStateInterface
{
public:
  LoanedStateInterface(std::string name, const double * value)
  : name_(std::move(name)), value_(value) {}
  const std::string & get_name() const {return name_;}
#ifdef STAND_IN_HUMBLE
  double get_value() const {return *value_;}
#else
  template<typename T = double>
  [[nodiscard]] std::optional<T> get_optional(unsigned int = 10) const {return *value_;}
#endif

private:
  std::string name_;
  const double * value_;
};

class LoanedCommandInterface
{
public:
  LoanedCommandInterface(std::string name, double * value)
  : name_(std::move(name)), value_(value) {}
  const std::string & get_name() const {return name_;}
#ifdef STAND_IN_HUMBLE
  void set_value(double value) {*value_ = value;}
#else
  template<typename T>
  [[nodiscard]] bool set_value(const T & value, unsigned int = 10)
  {
    *value_ = value;
    return true;
  }
#endif

private:
  std::string name_;
  double * value_;
};

}  // namespace hardware_interface

namespace controller_interface
{

enum class CallbackReturn { SUCCESS, FAILURE, ERROR };
enum class return_type { OK, ERROR };
enum class interface_configuration_type { ALL, INDIVIDUAL, NONE };

struct InterfaceConfiguration
{
  interface_configuration_type type;
  std::vector<std::string> names;
};

class ControllerInterface
{
public:
  virtual ~ControllerInterface() = default;
  virtual CallbackReturn on_init() = 0;
  virtual InterfaceConfiguration command_interface_configuration() const = 0;
  virtual InterfaceConfiguration state_interface_configuration() const = 0;
  virtual CallbackReturn on_configure(const rclcpp_lifecycle::State &) {return CallbackReturn::SUCCESS;}
  virtual CallbackReturn on_activate(const rclcpp_lifecycle::State &) {return CallbackReturn::SUCCESS;}
  virtual CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) {return CallbackReturn::SUCCESS;}
  virtual return_type update(const rclcpp::Time &, const rclcpp::Duration &) = 0;

  unsigned int get_update_rate() const {return update_rate;}
  std::shared_ptr<rclcpp_lifecycle::LifecycleNode> get_node() const {return node_;}

  void assign_interfaces(
    std::vector<hardware_interface::LoanedCommandInterface> && commands,
    std::vector<hardware_interface::LoanedStateInterface> && states)
  {
    command_interfaces_ = std::move(commands);
    state_interfaces_ = std::move(states);
  }
  unsigned int update_rate = 0;

protected:
  template<class Value>
  Value auto_declare(const std::string & name, const Value & value) {return node_->declare_parameter<Value>(name, value);}

  std::vector<hardware_interface::LoanedCommandInterface> command_interfaces_;
  std::vector<hardware_interface::LoanedStateInterface> state_interfaces_;

private:
  std::shared_ptr<rclcpp_lifecycle::LifecycleNode> node_ =
    std::make_shared<rclcpp_lifecycle::LifecycleNode>("controller");
};

}  // namespace controller_interface
