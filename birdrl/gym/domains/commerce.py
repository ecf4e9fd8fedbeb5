"""Shops, hotels, banks, houses, help desks: domains of money and customers."""

from __future__ import annotations

from birdrl.gym.domains.vocabulary import (
    Domain,
    address,
    carried,
    city,
    code,
    country,
    date,
    earlier_row,
    email,
    flag,
    key,
    later,
    moment,
    note,
    person,
    phrase,
    pick,
    real,
    ref,
    table,
    when,
    whole,
)

RETAIL = Domain("retail_orders", (
    table("customers", 240, {
        "customer_id": key(), "full_name": person(), "email": email("full_name", "mail.com", 0.1), "city": city(),
        "segment": pick("consumer|business|public"), "joined_on": date("2018-01-01", "2023-06-30"),
        "credit_limit": whole(0, 40, null=0.15),
    }, checks=("credit_limit >= 0",), indexes=("city",)),
    table("products", 120, {
        "product_id": key(), "product_name": phrase("Lamp|Chair|Desk|Clock|Kettle|Rug|Shelf|Mug"),
        "category": pick("kitchen|office|garden|lighting|textiles"), "list_price": real(3, 400, shape="low"),
        "stock": whole(0, 150, "low"), "discontinued": flag(0.12),
    }, checks=("list_price > 0", "stock >= 0")),
    table("orders", 700, {
        "order_id": key(1001), "customer_id": ref("customers", 0.6), "ordered_on": date("2021-01-01", "2023-12-31"),
        "status": pick("delivered|shipped|cancelled|open|returned", 0.9),
        "delivered_on": when("status", "delivered|returned", later("ordered_on", 1, 21)),
        "channel": pick("web|store|phone", 0.8), "discount": real(0, 0.3, 2, "low", null=0.4),
    }, checks=("delivered_on >= ordered_on",), indexes=("customer_id", "ordered_on")),
    table("order_items", 1600, {
        "order_id": ref("orders", 0.2), "product_id": ref("products", 0.5), "quantity": whole(1, 9, "low"),
        "unit_price": carried("product_id", "products", "list_price", 0.08),
    }, key="order_id product_id", checks=("quantity > 0",), label="order lines"),
    table("reviews", 320, {
        "review_id": key(), "product_id": ref("products", 0.7), "customer_id": ref("customers", 0.4),
        "rating": whole(1, 5, "bell"), "written_on": date("2021-03-01", "2024-02-28"), "comment": note(0.5),
    }, checks=("rating BETWEEN 1 AND 5",)),
))  # fmt: skip

HOTEL = Domain("hotel_stays", (
    table("hotels", 50, {
        "hotel_id": key(), "hotel_name": phrase("Inn|Palace|Lodge|House|Rest"), "city": city(),
        "stars": whole(1, 5, "bell"),
        "opened_year": whole(1950, 2020), "has_pool": flag(0.35),
    }, checks=("stars BETWEEN 1 AND 5",)),
    table("rooms", 400, {
        "room_id": key(), "hotel_id": ref("hotels", 0.3, unused=0.06), "room_no": whole(101, 640),
        "room_type": pick("double|single|suite|family"), "beds": whole(1, 4, "low"),
        "nightly_rate": real(45, 420, shape="low"),
    }, unique="hotel_id room_no", indexes=("hotel_id",)),
    table("guests", 300, {
        "guest_id": key(), "guest_name": person(), "home_country": country(),
        "birth_date": date("1945-01-01", "2003-12-31", 0.1),
        "loyalty": pick("none|bronze|silver|gold", null=0.08),
    }),
    table("bookings", 900, {
        "booking_id": key(5001), "room_id": ref("rooms", 0.3), "guest_id": ref("guests", 0.5),
        "check_in": date("2022-01-01", "2023-11-30"), "check_out": later("check_in", 1, 12),
        "status": pick("completed|cancelled|no_show|confirmed", 1.0), "price": real(60, 2400, shape="low"),
        "booked_via": pick("website|agency|phone", null=0.05),
    }, checks=("check_out > check_in",), indexes=("check_in",)),
    table("ratings", 350, {
        "rating_id": key(), "booking_id": ref("bookings", 0.2, unused=0.4), "score": whole(1, 10, "bell"),
        "topic": pick("room|breakfast|staff|location"), "remark": note(),
    }, unique="booking_id topic", checks=("score BETWEEN 1 AND 10",)),
))  # fmt: skip

BANK = Domain("bank_loans", (
    table("branches", 50, {
        "branch_id": key(), "branch_name": phrase("Bank|Branch|Office"), "city": city(),
        "opened_on": date("1970-01-01", "2015-12-31"),
    }),
    table("clients", 320, {
        "client_id": key(), "client_name": person(), "birth_date": date("1940-01-01", "2002-12-31"),
        "gender": pick("F|M", 0.1),
        "income": whole(12, 160, "low", null=0.1).named("yearly income in thousands"),
        "branch_id": ref("branches", 0.5),
    }, indexes=("branch_id",)),
    table("accounts", 450, {
        "account_id": key(), "client_id": ref("clients", 0.3), "account_type": pick("checking|savings|joint"),
        "balance": real(-900, 24000, shape="low"), "opened_on": date("2005-01-01", "2022-12-31"),
        "is_active": flag(0.85),
    }),
    table("loans", 380, {
        "loan_id": key(), "client_id": ref("clients", 0.5, unused=0.3),
        "purpose": pick("car|house|study|business|holiday"),
        "amount": whole(500, 60000, "low"), "rate": real(1.5, 9.9, 1), "granted_on": date("2015-01-01", "2023-06-30"),
        "term_months": whole(6, 120), "status": pick("running|paid|late|default"),
    }, checks=("amount > 0",), indexes=("client_id",)),
    table("payments", 1500, {
        "payment_id": key(), "loan_id": ref("loans", 0.4), "paid_on": date("2016-01-01", "2023-12-31"),
        "paid_amount": real(20, 1800, shape="low"), "method": pick("transfer|card|cash", null=0.06),
    }, indexes=("loan_id",)),
))  # fmt: skip

REAL_ESTATE = Domain("real_estate", (
    table("agents", 60, {
        "agent_id": key(), "agent_name": person(), "office_city": city(), "hired_on": date("2008-01-01", "2022-12-31"),
        "commission": real(1.0, 4.5, 1), "mentor_id": earlier_row("agents", 0.3),
    }, checks=("commission > 0",)),
    table("owners", 180, {
        "owner_id": key(), "owner_name": person(), "phone": code("555-", 2000, 7), "is_company": flag(0.2),
    }),
    table("properties", 420, {
        "property_id": key(), "owner_id": ref("owners", 0.4), "agent_id": ref("agents", 0.5, null=0.1),
        "address": address(),
        "city": city(), "kind": pick("flat|house|studio|office|land"), "rooms": whole(1, 9, "bell", null=0.08),
        "area": real(22, 340, 1, "low"), "built_year": whole(1890, 2022, null=0.1),
    }, checks=("area > 0",), indexes=("city",)),
    table("listings", 520, {
        "listing_id": key(), "property_id": ref("properties", 0.2), "listed_on": date("2019-01-01", "2023-12-31"),
        "asking_price": whole(40, 900, "low").named("asking price in thousands"),
        "state": pick("sold|active|withdrawn", 0.5),
        "sold_on": when("state", "sold", later("listed_on", 5, 240)),
    }),
    table("visits", 900, {
        "visit_id": key(), "listing_id": ref("listings", 0.4), "visitor": person(),
        "visited_on": date("2019-02-01", "2024-01-31"),
        "interest": whole(1, 5, "bell", null=0.12), "remark": note(0.7),
    }, indexes=("listing_id",)),
))  # fmt: skip

SUPPORT = Domain("support_tickets", (
    table("teams", 50, {
        "team_id": key(), "team_name": phrase("Desk|Squad|Team"), "region": pick("north|south|east|west", 0.2),
        "budget": whole(10, 300, "low").named("budget in thousands"),
    }),
    table("staff", 140, {
        "staff_id": key(), "staff_name": person(), "team_id": ref("teams", 0.4, null=0.05),
        "grade": pick("junior|senior|lead"),
        "hired_on": date("2012-01-01", "2023-03-31"), "salary": whole(28, 95, "bell").named("salary in thousands"),
        "boss_id": earlier_row("staff", 0.1),
    }),
    table("clients", 200, {
        "client_id": key(), "company": phrase("Foods|Works|Systems|Motors|Studio"), "country": country(),
        "plan": pick("free|basic|premium"), "since": date("2015-01-01", "2022-12-31"),
    }, indexes=("country",)),
    table("tickets", 1100, {
        "ticket_id": key(2001), "client_id": ref("clients", 0.6), "staff_id": ref("staff", 0.4, null=0.1),
        "priority": pick("normal|low|high|urgent"), "topic": pick("billing|login|crash|install|feature"),
        "opened_at": moment("2022-01-01", "2023-12-31"), "state": pick("closed|open|waiting", 0.9),
        "closed_on": when("state", "closed", later("opened_at", 0, 30)), "score": whole(1, 5, "bell", null=0.4),
    }, checks=("score BETWEEN 1 AND 5",), indexes=("staff_id", "opened_at")),
    table("replies", 1700, {
        "reply_id": key(), "ticket_id": ref("tickets", 0.3), "staff_id": ref("staff", 0.4),
        "sent_on": date("2022-01-01", "2024-01-31"),
        "minutes": whole(1, 180, "low"), "is_public": flag(0.7),
    }, indexes=("ticket_id",)),
))  # fmt: skip

DOMAINS = (RETAIL, HOTEL, BANK, REAL_ESTATE, SUPPORT)
