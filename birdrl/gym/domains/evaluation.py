"""Farms, events, factories, insurers: domains on which a gym of the paper's size is evaluated."""

from __future__ import annotations

from birdrl.gym.domains.vocabulary import (
    Domain,
    address,
    city,
    code,
    country,
    date,
    earlier_row,
    flag,
    key,
    later,
    moment,
    note,
    person,
    phrase,
    pick,
    product,
    real,
    ref,
    table,
    when,
    whole,
)

FARM = Domain("farm_produce", (
    table("farms", 60, {
        "farm_id": key(), "farm_name": phrase("Farm|Acres|Orchard|Meadow|Ranch"),
        "region": pick("hills|coast|valley|plain", 0.3), "owner": person(),
        "hectares": real(4, 420, 1, "low"), "organic": flag(0.35), "founded_on": date("1930-01-01", "2015-12-31", 0.1),
    }, checks=("hectares > 0",)),
    table("crops", 50, {
        "crop_id": key(), "crop_name": phrase("Wheat|Barley|Carrot|Apple|Potato|Bean"),
        "family": pick("cereal|root|fruit|legume|leaf"), "days_to_harvest": whole(35, 190, "bell"),
        "water_need": pick("low|medium|high", null=0.08),
    }),
    table("fields", 240, {
        "field_id": key(), "farm_id": ref("farms", 0.4), "soil": pick("clay|loam|sand|peat"),
        "area": real(0.4, 38, 2, "low"), "slope": whole(0, 18, "low", null=0.1).named("slope in degrees"),
        "irrigated": flag(0.45),
    }, checks=("area > 0",), indexes=("farm_id",)),
    table("plantings", 800, {
        "planting_id": key(), "field_id": ref("fields", 0.4), "crop_id": ref("crops", 0.5),
        "planted_on": date("2019-02-01", "2023-06-30"), "harvested_on": later("planted_on", 40, 210, 0.12),
        "yield_tons": real(0.2, 96, 1, "low", null=0.1).named("yield in tons"), "remark": note(0.75),
    }, checks=("harvested_on >= planted_on",), indexes=("field_id", "planted_on")),
    table("deliveries", 1000, {
        "delivery_id": key(3001), "planting_id": ref("plantings", 0.3),
        "buyer": pick("mill|market|cannery|export|school"),
        "delivered_on": date("2019-05-01", "2024-01-31"), "tons": real(0.1, 24, 1, "low"),
        "price_per_ton": real(60, 900, shape="low"), "paid": flag(0.8),
    }, checks=("tons > 0",), indexes=("planting_id",)),
))  # fmt: skip

EVENTS = Domain("event_tickets", (
    table("venues", 55, {
        "venue_id": key(), "venue_name": phrase("Hall|Arena|Theatre|Club|Park"), "city": city(), "country": country(),
        "capacity": whole(120, 24000, "low"), "indoor": flag(0.7),
    }, checks=("capacity > 0",)),
    table("organisers", 60, {
        "organiser_id": key(), "organiser_name": phrase("Events|Concerts|Productions|Agency"),
        "contact": person(), "founded_year": whole(1970, 2021, null=0.1),
        "rating": whole(1, 10, "bell", null=0.15),
    }),
    table("events", 380, {
        "event_id": key(), "title": phrase("Night|Festival|Show|Gala|Session|Fair"), "venue_id": ref("venues", 0.5),
        "organiser_id": ref("organisers", 0.5), "kind": pick("concert|play|talk|match|comedy"),
        "starts_at": moment("2021-01-01", "2023-12-31"), "state": pick("held|planned|cancelled|moved", 1.1),
        "base_price": real(8, 140, shape="low"),
    }, indexes=("venue_id", "starts_at")),
    table("buyers", 360, {
        "buyer_id": key(), "buyer_name": person(), "home_city": city(0.08),
        "joined_on": date("2018-01-01", "2023-09-30"), "newsletter": flag(0.4),
        "referred_by": earlier_row("buyers", 0.5),
    }),
    table("tickets", 1600, {
        "ticket_id": key(10001), "event_id": ref("events", 0.5), "buyer_id": ref("buyers", 0.5, null=0.05),
        "sold_on": date("2020-10-01", "2023-12-31"), "seat_class": pick("standard|balcony|front|box", 0.8),
        "price": real(6, 260, shape="low"),
        "refunded_on": when("seat_class", "front|box", later("sold_on", 1, 60, 0.6)),
    }, checks=("price > 0",), indexes=("event_id",)),
))  # fmt: skip

FACTORY = Domain("factory_floor", (
    table("plants", 50, {
        "plant_id": key(), "plant_name": phrase("Works|Plant|Mill|Foundry"), "country": country(),
        "opened_year": whole(1948, 2019), "manager": person(), "certified": flag(0.6),
    }),
    table("machines", 220, {
        "machine_id": key(), "plant_id": ref("plants", 0.4), "serial": code("MX", 400, 7),
        "type": pick("press|lathe|robot|oven|saw").named("machine type"), "bought_on": date("2004-01-01", "2022-12-31"),
        "power_kw": real(1.5, 220, 1, "low").named("power in kW"), "replaces_id": earlier_row("machines", 0.6),
    }, indexes=("plant_id",)),
    table("parts", 90, {
        "part_id": key(), "part_name": phrase("Bolt|Frame|Gear|Panel|Valve|Hinge"),
        "material": pick("steel|brass|nylon|zinc", null=0.06), "unit_cost": real(0.4, 85, shape="low"),
        "weight_g": whole(4, 6200, "low").named("weight in grams"),
    }, checks=("unit_cost > 0",)),
    table("batches", 900, {
        "batch_id": key(7001), "machine_id": ref("machines", 0.4), "part_id": ref("parts", 0.5),
        "made_on": date("2021-01-01", "2023-12-31"), "quantity": whole(20, 900, "low"),
        "scrap": whole(0, 60, "low"), "shift": pick("early|late|night", 0.4, null=0.04),
        "total_hours": real(0.5, 16, 1, "bell"),
    }, checks=("scrap >= 0", "quantity > 0"), indexes=("machine_id", "made_on")),
    table("repairs", 520, {
        "repair_id": key(), "machine_id": ref("machines", 0.6), "reported_at": moment("2021-01-01", "2023-12-31"),
        "fixed_on": later("reported_at", 0, 35, 0.1), "cause": pick("wear|operator|power|software|unknown"),
        "cost": real(15, 9200, shape="low", null=0.07), "remark": note(0.6),
    }, indexes=("machine_id",)),
))  # fmt: skip

INSURANCE = Domain("insurance_claims", (
    table("brokers", 60, {
        "broker_id": key(), "broker_name": person(), "office": address(), "city": city(),
        "licensed_on": date("1998-01-01", "2021-12-31"), "commission": real(2, 14, 1),
    }, checks=("commission > 0",)),
    table("holders", 340, {
        "holder_id": key(), "holder_name": person(), "birth_date": date("1938-01-01", "2003-12-31"),
        "city": city(0.05), "segment": pick("private|farm|trade|public"), "since": date("2000-01-01", "2022-12-31"),
    }),
    table("policies", 640, {
        "policy_id": key(20001), "holder_id": ref("holders", 0.4), "broker_id": ref("brokers", 0.5, null=0.08),
        "cover": pick("car|home|travel|liability|health"), "starts_on": date("2015-01-01", "2023-06-30"),
        "premium": real(40, 2600, shape="low").named("yearly premium"), "deductible": whole(0, 20, "low", null=0.1),
        "status": pick("active|lapsed|cancelled", 0.9),
    }, checks=("premium > 0",), indexes=("holder_id",)),
    table("claims", 760, {
        "claim_id": key(), "policy_id": ref("policies", 0.4), "happened_on": date("2017-01-01", "2023-11-30"),
        "cause": pick("water|theft|crash|storm|fire|other"), "claimed": real(60, 26000, shape="low"),
        "state": pick("paid|rejected|open|reopened", 0.8),
        "settled_on": when("state", "paid|rejected", later("happened_on", 5, 300)),
        "injured": whole(0, 4, "low"),
    }, checks=("claimed > 0",), indexes=("policy_id", "happened_on")),
    table("payouts", 900, {
        "payout_id": key(), "claim_id": ref("claims", 0.3, unused=0.25), "paid_on": date("2017-02-01", "2024-01-31"),
        "share": real(0.1, 1.0, 2), "base": real(50, 18000, shape="low"), "amount": product("share", "base"),
        "method": pick("transfer|check|offset", null=0.05),
    }, indexes=("claim_id",)),
))  # fmt: skip

DOMAINS = (FARM, EVENTS, FACTORY, INSURANCE)
