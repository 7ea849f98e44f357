"""`ControllerStructure`: elements by level and contacts of a controller, and the objects that depend on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..contact import Contact
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_sequence
from ..robot.robot import Robot
from .contact_schedule import ContactSchedule
from .contact_settings import ChangeCounter, ContactSettings
from .element import Element, scales
from .elements import Levels, NamedItems, default_constraints, default_tasks
from .tick_solver import TickSolver


class ControllerStructure:
    """Elements and contacts of a controller; both can be added and removed between ticks.

    Args:
        robot: robot of the controller.
        constraints: elements of level 0, None for the default.
        tasks: levels from 1 on, each one element or several, None for the default.
        contacts: contacts in addition to the feet; one with the name of a foot replaces that foot's contact.
        friction: friction coefficient of the feet.
        dt: control period [s].
        rank_tolerance: rank tolerance of the solver.
        damping: damping of the solver.

    Attributes:
        levels: the elements.
        contacts: settings of every contact by name.
        default_contacts: names of the contacts that are requested if none are named.
        schedule: ramps of the contacts.
        solver: solver of the ticks of these elements and contacts.

    Raises:
        ArgumentError, ArgumentTypeError, UnknownNameError: as `WholeBodyController`.
    """

    def __init__(
        self,
        robot: Robot,
        constraints: Sequence[Element] | None,
        tasks: Sequence[Element | Sequence[Element]] | None,
        contacts: Iterable[Contact],
        *,
        friction: float,
        dt: float,
        rank_tolerance: float,
        damping: float,
    ) -> None:
        self._robot, self._changes = robot, ChangeCounter()
        self._options = {"dt": dt, "rank_tolerance": rank_tolerance, "damping": damping}
        level_0: Sequence[Element] = default_constraints(robot, dt)
        if constraints is not None:
            level_0 = check_sequence("constraints", constraints, "constraints")
        lower_levels = default_tasks(robot) if tasks is None else check_sequence("tasks", tasks, "levels")
        self.levels = Levels(robot, [level_0, *(x if isinstance(x, Sequence) else [x] for x in lower_levels)])
        contact_settings = {
            foot: ContactSettings(robot, Contact.from_foot(robot, foot), friction=friction, changes=self._changes)
            for foot in robot.feet
        }
        for contact in check_sequence("contacts", contacts, "contacts"):
            contact_settings[contact.name] = self._make_settings("contacts", contact)
        self.default_contacts: tuple[str, ...] = () if robot.root == "fixed" else robot.feet
        self.schedule = ContactSchedule(
            contact_settings, self.levels.foot_tasks(contact_settings), self.default_contacts, self._changes
        )
        self._create_solver(contact_settings)

    def _create_solver(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Creates the objects that depend on elements and contacts."""
        self.contacts: Mapping[str, ContactSettings] = NamedItems("contact", contacts)
        for element in self.levels.by_name.values():
            element.bind_contacts(contacts)
        ramps, scale = self.schedule.ramps, scales(self._robot)
        self.solver = TickSolver(
            self._robot, self.levels, contacts, ramps, self._changes, scales=scale, **self._options
        )

    def _make_settings(self, argument: str, contact: object) -> ContactSettings:
        """Returns settings of a contact; `argument` names it in errors."""
        if not isinstance(contact, Contact):
            raise ArgumentTypeError(f"{argument}: expected quaddyn.contact.Contact, got {type(contact).__name__}")
        return ContactSettings(self._robot, contact, changes=self._changes)

    # -- adding and removing -----------------------------------------------------------------------------------
    def add(self, element: Element, level: int) -> None:
        """Adds an element, as `WholeBodyController.add`."""
        elements = [list(each) for each in self.levels.elements]
        if type(level) is not int or not 0 <= level <= len(elements):
            raise ArgumentError(f"level: expected 0 to {len(elements)}, got {level!r}")
        if level == len(elements):
            elements.append([])
        elements[level].append(element)
        self._replace_elements(elements)

    def remove(self, name: str) -> None:
        """Removes an element, as `WholeBodyController.remove`."""
        removed = self.levels.by_name[name]
        self._replace_elements([[e for e in level if e is not removed] for level in self.levels.elements])

    def add_contact(self, contact: Contact) -> None:
        """Adds a contact, as `WholeBodyController.add_contact`."""
        settings = self._make_settings("contact", contact)
        contacts = {**self.contacts, contact.name: settings}
        _validate_contacts(self.levels.by_name.values(), contacts)
        self._set_contacts(contacts)

    def remove_contact(self, name: str) -> None:
        """Removes a contact, as `WholeBodyController.remove_contact`."""
        if name not in self.contacts:
            raise UnknownNameError("contact", name, self.contacts)
        remaining = {n: s for n, s in self.contacts.items() if n != name}
        for element in self.levels.by_name.values():
            try:
                element.validate_contacts(remaining)
            except UnknownNameError:
                raise ArgumentError(
                    f"name: contact {name!r} is used by {element.name!r}; remove that element first"
                ) from None
        self._set_contacts(remaining)

    def _replace_elements(self, elements: Sequence[Sequence[Element]]) -> None:
        """Replaces the elements of all levels; those that remain keep their parameters."""
        contacts = dict(self.contacts)
        _validate_contacts((e for level in elements for e in level), contacts)
        self.levels = self.levels.with_elements(elements)
        self._replace_contacts(contacts)

    def _set_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Replaces the contacts, and the contacts that are requested by default."""
        self._changes.count_settings_change()
        self.default_contacts = tuple(
            foot for foot in self._robot.feet if foot in contacts and self._robot.root != "fixed"
        )
        self._replace_contacts(contacts)

    def _replace_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Replaces the contacts in the schedule, and creates the objects that depend on them."""
        self.schedule.replace_contacts(contacts, self.levels.foot_tasks(contacts), self.default_contacts)
        self._create_solver(contacts)


def _validate_contacts(elements: Iterable[Element], contacts: Mapping[str, ContactSettings]) -> None:
    """Validates that all elements can be used with these contacts."""
    for element in elements:
        if isinstance(element, Element):  # other objects are rejected by `Levels`
            element.validate_contacts(contacts)
