"""Hospitals, universities, libraries, museums, energy: domains of public institutions."""

from __future__ import annotations

from birdrl.gym.domains.vocabulary import (
    Domain,
    address,
    city,
    code,
    country,
    date,
    email,
    flag,
    key,
    later,
    note,
    person,
    phrase,
    pick,
    product,
    real,
    ref,
    table,
    whole,
)

_FIELDS = "Modern|Applied|Social|Marine|Urban|Digital|Rural|Visual"
_LEVELS = "Basic|Advanced|General|Applied|Practical"

HOSPITAL = Domain("hospital", (
    table("wards", 50, {
        "ward_id": key(), "ward_name": phrase("Ward|Unit|Wing"),
        "specialty": pick("surgery|heart|children|cancer|general"),
        "floor": whole(0, 8), "beds": whole(6, 40, "bell"),
    }),
    table("doctors", 110, {
        "doctor_id": key(), "doctor_name": person(), "ward_id": ref("wards", 0.4),
        "hired_on": date("1995-01-01", "2022-12-31"),
        "salary": whole(48, 190, "low").named("salary in thousands"), "is_head": flag(0.12),
    }, indexes=("ward_id",)),
    table("patients", 420, {
        "patient_id": key(), "patient_name": person(), "birth_date": date("1932-01-01", "2020-12-31"),
        "sex": pick("F|M", 0.05),
        "city": city(), "blood": pick("A|O|B|AB", 0.8, null=0.12).named("blood group"),
        "insurer": pick("Alfa|Beta|Delta", null=0.15),
    }),
    table("admissions", 800, {
        "admission_id": key(), "patient_id": ref("patients", 0.5), "ward_id": ref("wards", 0.5),
        "doctor_id": ref("doctors", 0.4),
        "admitted_on": date("2020-01-01", "2023-12-15"), "discharged_on": later("admitted_on", 0, 45, 0.08),
        "reason": pick("accident|pain|infection|checkup|birth"), "cost": real(120, 19000, shape="low"),
    }, checks=("discharged_on >= admitted_on", "cost >= 0"), indexes=("patient_id", "admitted_on")),
    table("treatments", 1300, {
        "treatment_id": key(), "admission_id": ref("admissions", 0.2),
        "drug": pick("aspirin|insulin|codeine|statin|none|heparin"),
        "dose": real(0.5, 80, 1, "low", null=0.1), "given_on": date("2020-01-01", "2024-01-15"), "remark": note(0.7),
    }, indexes=("admission_id",)),
))  # fmt: skip

UNIVERSITY = Domain("university", (
    table("departments", 50, {
        "dept_id": key().named("department id"),
        "dept_name": phrase("Studies|Science|Arts", _FIELDS).named("department name"),
        "building": pick("North Hall|South Hall|Old Tower|Annex"),
        "budget": whole(80, 2500, "low").named("budget in thousands"),
    }),
    table("teachers", 120, {
        "teacher_id": key(), "teacher_name": person(), "dept_id": ref("departments", 0.3).named("department id"),
        "rank": pick("lecturer|professor|assistant"), "salary": whole(30, 120, "bell").named("salary in thousands"),
        "hired_on": date("1990-01-01", "2022-12-31"),
    }),
    table("students", 500, {
        "student_id": key(), "student_name": person(), "email": email("student_name", "uni.edu"),
        "dept_id": ref("departments", 0.5, null=0.06).named("department id"),
        "enrolled_on": date("2016-09-01", "2023-09-30"),
        "credits": whole(0, 240), "home_country": country(),
    }, checks=("credits >= 0",), indexes=("dept_id",)),
    table("courses", 160, {
        "course_id": key(),
        "title": phrase("Algebra|Poetry|Optics|Logic|Ethics|Genetics|Markets", _LEVELS),
        "dept_id": ref("departments", 0.4).named("department id"), "teacher_id": ref("teachers", 0.4, null=0.05),
        "points": whole(2, 12, "bell"), "level": pick("bachelor|master|doctoral"),
    }),
    table("enrolments", 1800, {
        "student_id": ref("students", 0.3), "course_id": ref("courses", 0.5),
        "term": pick("2021A|2021B|2022A|2022B|2023A", 0.2),
        "grade": real(1, 10, 1, "bell", null=0.12), "passed": flag(0.8),
    }, key="student_id course_id term", checks=("grade BETWEEN 1 AND 10",), indexes=("course_id",)),
    table("scholarships", 130, {
        "scholarship_id": key(), "student_id": ref("students", 0.2, unused=0.5), "fund": pick("merit|need|sport|city"),
        "amount": whole(200, 6000, "low"), "granted_on": date("2018-01-01", "2023-12-31"),
    }),
))  # fmt: skip

LIBRARY = Domain("city_library", (
    table("authors", 110, {
        "author_id": key(), "author_name": person(), "nationality": country(null=0.05),
        "birth_year": whole(1850, 1995, null=0.1),
    }),
    table("books", 380, {
        "book_id": key(), "title": phrase(), "author_id": ref("authors", 0.6),
        "genre": pick("novel|history|crime|poetry|travel|science"),
        "pages": whole(60, 900, "low"), "published": whole(1900, 2023).named("year of publication"),
        "isbn": code("978-", 31000, 17),
    }, indexes=("author_id",)),
    table("branches", 50, {
        "branch_id": key(), "branch_name": phrase("Library|Reading Room"), "address": address(),
        "opened_on": date("1960-01-01", "2018-12-31"),
    }),
    table("members", 300, {
        "member_id": key(), "member_name": person(), "branch_id": ref("branches", 0.5),
        "joined_on": date("2012-01-01", "2023-06-30"),
        "kind": pick("adult|child|student|senior"), "active": flag(0.82),
    }),
    table("loans", 1500, {
        "loan_id": key(), "book_id": ref("books", 0.5), "member_id": ref("members", 0.5),
        "loaned_on": date("2021-01-01", "2023-12-01"),
        "due_on": later("loaned_on", 21, 21), "returned_on": later("loaned_on", 1, 60, 0.1),
        "fine": real(0, 12, 2, "low", null=0.5),
    }, checks=("returned_on >= loaned_on",), indexes=("member_id", "loaned_on")),
    table("holds", 260, {
        "hold_id": key(), "book_id": ref("books", 0.7), "member_id": ref("members", 0.3),
        "placed_on": date("2023-01-01", "2023-12-31"),
        "state": pick("waiting|ready|expired"),
    }, unique="book_id member_id"),
))  # fmt: skip

MUSEUM = Domain("museum", (
    table("artists", 130, {
        "artist_id": key(), "artist_name": person(), "country": country(),
        "born": whole(1780, 1985).named("year of birth"),
        "movement": pick("realism|cubism|baroque|abstract|pop art", null=0.1),
    }),
    table("rooms", 50, {
        "room_id": key(), "room_name": phrase("Hall|Gallery|Cabinet"), "floor": whole(0, 4),
        "area": real(20, 420, 1, "low"),
        "climate": flag(0.6).named("climate control"),
    }),
    table("artworks", 460, {
        "artwork_id": key(), "title": phrase(), "artist_id": ref("artists", 0.6),
        "room_id": ref("rooms", 0.4, null=0.15),
        "medium": pick("oil|print|marble|bronze|drawing"), "made_year": whole(1800, 2015, null=0.08),
        "insured": whole(1, 900, "low", null=0.1).named("insured value in thousands"),
    }, checks=("insured >= 0",), indexes=("artist_id",)),
    table("exhibitions", 60, {
        "exhibition_id": key(), "theme": phrase("Visions|Worlds|Colors|Stories"),
        "starts_on": date("2018-01-01", "2023-06-30"),
        "ends_on": later("starts_on", 20, 200), "sponsor": pick("city|bank|private", null=0.2),
    }, checks=("ends_on > starts_on",)),
    table("displays", 700, {
        "exhibition_id": ref("exhibitions", 0.3), "artwork_id": ref("artworks", 0.3), "position": whole(1, 60),
    }, key="exhibition_id artwork_id"),
    table("tickets", 1400, {
        "ticket_id": key(), "exhibition_id": ref("exhibitions", 0.6), "sold_on": date("2018-01-01", "2023-12-31"),
        "visitor_type": pick("adult|student|child|senior"), "price": real(2, 24, 1), "visitors": whole(1, 6, "low"),
    }, indexes=("exhibition_id",)),
))  # fmt: skip

ENERGY = Domain("energy_meters", (
    table("districts", 50, {
        "district_id": key(), "district_name": phrase("Quarter|District|Side"), "population": whole(1800, 60000, "low"),
        "zone": pick("urban|suburban|rural"),
    }),
    table("households", 350, {
        "household_id": key(), "owner": person(), "district_id": ref("districts", 0.5), "persons": whole(1, 7, "low"),
        "area": real(28, 260, 1, "low", null=0.07), "solar": flag(0.25).named("has solar panels"),
    }, checks=("persons > 0",), indexes=("district_id",)),
    table("tariffs", 50, {
        "tariff_id": key(), "tariff_name": phrase("Saver|Flex|Night|Green"),
        "price_kwh": real(0.12, 0.48, 3).named("price per kWh"),
        "valid_from": date("2019-01-01", "2022-12-31"), "valid_to": later("valid_from", 200, 900, 0.4),
    }),
    table("meters", 480, {
        "meter_id": key(), "serial": code("MT", 4000, 11), "household_id": ref("households", 0.2),
        "tariff_id": ref("tariffs", 0.7),
        "energy": pick("power|gas|heat"), "installed_on": date("2010-01-01", "2021-12-31"),
        "state": pick("ok|faulty|removed", 1.3),
    }),
    table("readings", 1900, {
        "reading_id": key(), "meter_id": ref("meters", 0.2), "read_on": date("2022-01-01", "2023-12-31"),
        "kwh": real(4, 900, 1, "low", null=0.05).named("consumption in kWh"), "source": pick("remote|manual|estimate"),
    }, indexes=("meter_id", "read_on")),
    table("bills", 600, {
        "bill_id": key(), "household_id": ref("households", 0.3), "issued_on": date("2022-01-15", "2023-12-31"),
        "units": whole(50, 1400, "low"), "unit_price": real(0.15, 0.45, 2), "amount": product("units", "unit_price"),
        "paid_on": later("issued_on", 1, 70, 0.2),
    }, indexes=("household_id",)),
))  # fmt: skip

DOMAINS = (HOSPITAL, UNIVERSITY, LIBRARY, MUSEUM, ENERGY)
